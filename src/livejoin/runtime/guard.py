"""The small process between us and a child of ours: ends the child when we are gone, or silent.

Run by its path, `guard.py <silent_s> <command…>`, with nothing but the standard library. Its
standard input is our pipe. When that closes (we are gone, kill -9 included), or nothing comes
through it for `silent_s` seconds (we are frozen; 0: that is fine), the child is killed. A SIGTERM
goes on to the child, and the guard ends with the child's code. The child's standard input is a
pipe of the guard's, so that a JVM that heeds its end also notices when the guard was killed.
"""

import os
import select
import signal
import sys
import time

_POLL_S = 60.0  # where silence is fine; signals and the pipe wake us at once


def _clock() -> float:
    """Seconds, those in which the machine slept included where the system can tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def run(command: list[str], silent_s: float) -> int:
    """Run a command as our child, for as long as we are heard; its exit code."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until there is whom to pass it to
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    its_input, held = os.pipe()
    child = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, its_input, 0)],
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
    )
    os.close(its_input)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: os.kill(child, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    heard = _clock()
    while True:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            break
        wait_s = heard + silent_s - _clock() if silent_s else _POLL_S
        ready, _, _ = select.select([0, wakes], [], [], max(0.0, wait_s))
        now = _clock()
        # whoever slept through a silence, too, must not be calmed by what comes after it
        silent = silent_s and now >= heard + silent_s
        if silent or (0 in ready and not os.read(0, 4096)):
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
        if 0 in ready:
            heard = now
        if wakes in ready:
            os.read(wakes, 4096)
    os.close(held)
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(run(sys.argv[2:], float(sys.argv[1])))
