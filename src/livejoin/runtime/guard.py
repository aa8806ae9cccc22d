"""A process between livejoin and a child: kills the child when livejoin has died or is frozen.

Run by its path, `guard.py <silent_s> <command…>`, with the standard library only. Its standard
input is a pipe from livejoin. The child is killed when the pipe closes (livejoin has died, even by
kill -9), or when no heartbeat arrives for `silent_s` seconds (livejoin is frozen; 0 disables this).
The number is `JVM_SILENCE_S` of `control/leadership.py`. SIGTERM is forwarded to the child, and the
guard exits with the child's code. The child's standard input is a pipe from the guard: a JVM that
watches it notices when the guard is killed.
"""

import os
import select
import signal
import sys
import time

_POLL_S = 60.0  # without heartbeats; signals and the pipe wake it at once


def _clock() -> float:
    """Monotonic seconds, on Linux including those in which the machine was suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return time.monotonic() if boot is None else time.clock_gettime(boot)


def run(command: list[str], silent_s: float) -> int:
    """Run a command as a child while heartbeats arrive; its exit code."""
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGTERM}
    )  # until there is a child to forward it to
    wakes, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    child_input, child_pipe = os.pipe()
    child = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, child_input, 0)],
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them
    )
    os.close(child_input)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: os.kill(child, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    last_heartbeat = _clock()
    while True:
        exited, status = os.waitpid(child, os.WNOHANG)
        if exited:
            break
        wait_s = last_heartbeat + silent_s - _clock() if silent_s else _POLL_S
        ready, _, _ = select.select([0, wakes], [], [], max(0.0, wait_s))
        now = _clock()
        # a late heartbeat does not count if the guard was frozen as well
        silent = silent_s and now >= last_heartbeat + silent_s
        if silent or (0 in ready and not os.read(0, 4096)):
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            break
        if 0 in ready:
            last_heartbeat = now
        if wakes in ready:
            os.read(wakes, 4096)
    os.close(child_pipe)
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(run(sys.argv[2:], float(sys.argv[1])))
