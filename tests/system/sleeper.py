"""A job for tests, sleeper.py LOG SECONDS [breed]: writes when it starts, lives and ends (CLOCK_MONOTONIC), and to
LOG.cores which cores it has. With "breed" it leaves a child in a session of its own that carries no mark of the run."""

import os
import subprocess
import sys
import time

BEAT_S = 0.02


def main() -> None:
    """One line of a log per beat; a whole run ends with "end"."""
    log, cores = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                  for path in (sys.argv[1], f"{sys.argv[1]}.cores"))  # fmt: skip
    who = f"{os.environ['COHABIT_JOB'].replace(' ', '_')} {os.environ['COHABIT_ATTEMPT']}"
    begin_s = time.monotonic()

    def say(word: str) -> None:
        os.write(log, f"{word} {who} {time.monotonic_ns() // 1000}\n".encode())

    say("start")
    os.write(cores, f"{who} {','.join(map(str, sorted(os.sched_getaffinity(0))))}\n".encode())
    if "breed" in sys.argv:
        stay = "import time; time.sleep(600)"
        subprocess.Popen([sys.executable, "-I", "-S", "-c", stay, sys.argv[1]], env={}, start_new_session=True)
    while time.monotonic() < begin_s + float(sys.argv[2]):
        time.sleep(BEAT_S)
        say("alive")
    say("end")
    os._exit(0)  # between that line and the end of the process nobody should be able to stop it


if __name__ == "__main__":
    main()
