"""A job for tests, sleeper.py LOG SECONDS: writes when it starts, lives and ends (CLOCK_MONOTONIC)."""

import os
import sys
import time

BEAT_S = 0.02


def main() -> None:
    """One line of a log per beat; a whole run ends with "end"."""
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    who = f"{os.environ['COHABIT_JOB'].replace(' ', '_')} {os.environ['COHABIT_ATTEMPT']}"
    begin_s = time.monotonic()

    def say(word: str) -> None:
        os.write(log, f"{word} {who} {time.monotonic_ns() // 1000}\n".encode())

    say("start")
    while time.monotonic() < begin_s + float(sys.argv[2]):
        time.sleep(BEAT_S)
        say("alive")
    say("end")


if __name__ == "__main__":
    main()
