"""The command line: calls the command that is named, and turns every refusal into one line and an exit code.

Nothing large is imported before `main`, whose imports Ctrl-C may interrupt without a traceback.
"""

from __future__ import annotations

import signal
import sys

from ivsim.imports import interrupt
from ivsim.told import say_error

EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130
# A path may have 255 characters a part; what is longer is content.
LONGEST_WORD = 500
LONGEST_LINE = 4_000


def main() -> None:
    """Run the command line; exit code 2 and one line for everything that is refused."""
    try:
        # Ignored in a job that a shell has put into the background: that stays so.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)
        code = _called()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _called() -> int:
    from typer.exceptions import TyperException  # noqa: PLC0415 - see above

    from ivsim.application import app  # noqa: PLC0415
    from ivsim.runs.interrupt import Interrupted  # noqa: PLC0415
    from schemas.errors import Refusal  # noqa: PLC0415

    try:
        code = app(standalone_mode=False)
    except TyperException as error:
        message = error.format_message()
        return _refused(f"{message} (see ivsim --help)") if message else 0
    except Refusal as refusal:
        return _refused(str(refusal))
    except Interrupted as interrupted:  # while a run was closing what it had opened: that is done by now
        say_error(f"stopped by {interrupted}")
        return 128 + interrupted.number
    return code if isinstance(code, int) else 0


def _refused(text: str) -> int:
    say_error(_readable(text))
    return EXIT_REFUSED


def _readable(text: str) -> str:
    """Return a message in one line, with what was typed or read shortened where nobody would read it to its end."""
    words = (
        word if len(word) <= LONGEST_WORD else f"{word[:60]}...({len(word):,} characters)"
        for word in text.split()
    )
    line = " ".join(words)
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}..."


if __name__ == "__main__":
    main()
