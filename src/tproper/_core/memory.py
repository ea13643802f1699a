"""Room in memory, asked for before the work: a process that takes more is killed without warning."""

from __future__ import annotations

from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

SMALL = 1 << 26  # bytes that are not worth the question


def free_memory() -> float:
    """Bytes that this process can still have: what the system has left, and its own limit; infinite if unknown."""
    room = float("inf")
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        facts = {name: text for name, _, text in (line.partition(":") for line in lines)}
        room = 1024.0 * (int(facts["MemAvailable"].split()[0]) + int(facts["SwapFree"].split()[0]))
    except (OSError, KeyError, ValueError, IndexError):  # another system
        pass
    if resource is not None:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            try:
                taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
            except (OSError, ValueError, IndexError):
                taken = 0
            room = min(room, limit - taken)
    return room


def check_room(size: float, what: str, advice: str) -> None:
    """Raise a `MemoryError` that says what to do where `size` bytes are not free."""
    if size < SMALL:
        return
    room = free_memory()
    if size > room:
        raise MemoryError(
            f"expected room for {size / 2**30:.1f} GiB ({what}), got {max(room, 0) / 2**30:.1f} GiB free; {advice}"
        )
