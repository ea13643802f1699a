"""Laws of the descent behind verdicts on functions: it arrives, and a problem does not see its neighbours."""

import numpy as np

from tproper.certificates.descent import nelder_mead


def problems(B, n, seed):
    """Quadratics with their minimisers, and first simplexes."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((B, n, n))
    A = A @ A.transpose(0, 2, 1) + np.eye(n)
    centres, floors = rng.standard_normal((B, n)), rng.standard_normal(B)

    def function(x, which):
        d = x - centres[which]
        return floors[which] + np.einsum("bi,bij,bj->b", d, A[which], d)

    starts = rng.standard_normal((B, 1, n)) + np.concatenate([np.zeros((1, n)), np.eye(n)])
    return function, starts, centres, floors


def test_every_descent_arrives():
    for n in (1, 2, 5):
        function, starts, centres, floors = problems(8, n, seed=n)
        x, f = nelder_mead(function, starts, 2000, xatol=1e-9, fatol=1e-13)
        np.testing.assert_allclose(x, centres, atol=1e-6)
        np.testing.assert_allclose(f, floors, atol=1e-10)


def test_a_problem_in_a_stack_is_the_problem_alone():
    function, starts, _, _ = problems(6, 3, seed=0)
    together = nelder_mead(function, starts, 60, 1e-9, 1e-13)
    for i in range(6):
        alone = nelder_mead(lambda x, which, i=i: function(x, which + i), starts[i : i + 1], 60, 1e-9, 1e-13)
        assert all(np.array_equal(a[i], b[0]) for a, b in zip(together, alone, strict=True))


def test_a_fall_without_end_and_infinite_values_do_no_harm():
    def function(x, which):
        return np.where(which == 0, -x[:, 0], np.where(x[:, 0] < 0, np.inf, x[:, 0]))

    starts = np.array([[[0.0], [1.0]], [[-1.0], [2.0]]])
    f = nelder_mead(function, starts, 200, 1e-9, 0.0)[1]
    assert f[0] < -1e6
    assert 0 <= f[1] < 1e-6
