"""Names for code and content: what a result was made by and from."""

import hashlib
import shutil
import subprocess
from pathlib import Path

UNKNOWN_COMMIT = "unknown"


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes as hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_commit() -> str:
    """Return the commit of the running code, with "-dirty" where files differ from it, or "unknown" outside a repository."""
    git = shutil.which("git")
    folder = Path(__file__).parent
    if git is None:
        return UNKNOWN_COMMIT
    command = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - nothing of a user's is in it
    return done.stdout.strip() or UNKNOWN_COMMIT
