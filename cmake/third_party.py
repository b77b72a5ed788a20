"""Files of other projects: fetch them from the Debian archive through apt, verify and unpack them; install nothing.

The scripts that fetch what a backend is compiled against import this module, which lies beside edgecore's CMake files.
A file with the extension ``.pins`` lists what is wanted. apt works in a temporary folder with lists of its own, so it
needs no root and the system's state does not change.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SUITE = "trixie"
UPDATE_SECONDS, DOWNLOAD_SECONDS = 300, 120


class FetchError(Exception):
    """An error whose text is one sentence for the user: what failed, and what to do."""


@dataclass(frozen=True)
class Pin:
    """A file of the archive: a ``.deb``, or sources; it is used only if its size and SHA-256 match."""

    sha256: str
    size: int
    package: str
    name: str

    @property
    def is_source(self) -> bool:
        return not self.name.endswith(".deb")

    def matches(self, path: Path) -> bool:
        """Return True if the file at ``path`` has this pin's size and SHA-256."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256


def say(text: str) -> None:
    """Print a line of progress, with the name of the script that runs."""
    print(f"{Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def read_pins(path: Path) -> list[Pin]:
    """Return the pins of a file: a line of four columns for each, between comments that begin with ``#``."""
    rows = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [Pin(sha, int(size), package, name) for sha, size, package, name in rows]


def cache_folder() -> Path:
    """Return the folder for fetched and unpacked files, and create it."""
    cache = Path(os.environ.get("EDGECORE_CACHE") or Path.home() / ".cache" / "edgecore") / "third_party"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


@contextmanager
def new_folder(result: Path) -> Iterator[Path | None]:
    """Yield a temporary folder that becomes ``result`` when the block ends without an exception.

    Yields None if ``result`` exists. A second process waits until the first has finished.
    """
    if result.is_dir():
        yield None
        return
    with Path(f"{result}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if result.is_dir():
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="unpack-", dir=result.parent) as name:
            stage = Path(name) / "stage"
            stage.mkdir()
            yield stage
            stage.rename(result)


# ---- fetching


def archive_uri() -> str | None:
    """Return the URI of the Debian archive that apt is configured with, or None.

    Security repositories are skipped; a URI that ends with ``/debian`` is preferred to those of other vendors.
    """
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_SECONDS,
        check=False,
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    uris = [row[0] for row in rows if len(row) == 2 and row[1] == "main" and "security" not in row[0]]
    uris.sort(key=lambda uri: not uri.rstrip("/").endswith("/debian"))
    return uris[0] if uris else None


def apt_options(root: Path, architecture: str = "amd64") -> list[str]:
    """Return the options of an apt that works in ``root``, for machines of Debian's ``architecture``."""
    options = [
        f"Dir::Etc::sourcelist={root / 'sources.list'}",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::Lists={root / 'lists'}",
        f"Dir::Cache={root}",
        f"Dir::Cache::archives={root / 'archives'}",
        f"APT::Architecture={architecture}",
        f"APT::Architectures={architecture}",
        "APT::Get::List-Cleanup=0",
        "Acquire::Languages=none",
        "Acquire::Retries=1",
        "Acquire::http::Timeout=30",
        "Acquire::https::Timeout=30",
    ]
    return [word for option in options for word in ("-o", option)]


@contextmanager
def private_apt(suite: str, architecture: str = "amd64", sources: bool = False) -> Iterator[tuple[list[str], Path]]:
    """Yield the first words of the commands of an apt-get for ``suite``, and its temporary folder.

    The caller first runs the command ``update``, which fetches apt's own lists of binary packages, and of source
    packages if ``sources`` is true. Other commands run in the subfolder ``files``. Raises FetchError if the machine has
    no apt-get, or if apt has no Debian archive.
    """
    if shutil.which("apt-get") is None:
        raise FetchError("This machine has no apt-get; no file is fetched from the Debian archive.")
    with tempfile.TemporaryDirectory(prefix="edgecore-apt-") as name:
        root = Path(name)
        for folder in ("lists/partial", "archives/partial", "files"):
            (root / folder).mkdir(parents=True)
        if os.geteuid() == 0:  # apt run by root downloads as the user _apt, who must be able to enter and write here
            root.chmod(0o755)
            with suppress(LookupError):
                for folder in ("archives/partial", "files"):
                    shutil.chown(root / folder, "_apt")
        uri = archive_uri()
        if uri is None:
            raise FetchError("apt has no Debian archive configured; no file is fetched from it.")
        kinds = ("deb", "deb-src") if sources else ("deb",)
        (root / "sources.list").write_text("".join(f"{kind} {uri} {suite} main\n" for kind in kinds))
        yield ["apt-get", "-q", *apt_options(root, architecture)], root


def apt_fetch(pins: list[Pin], into: Path, unpinned: tuple[str, ...] = ()) -> None:
    """Download the files of ``pins`` that apt can get, and the ``unpinned`` packages in the suite's version.

    The caller checks which files exist afterwards. apt itself verifies the unpinned packages, by the signature of the
    archive. Its exit status is ignored: it is 100 also if only a file beside the wanted one, such as its .dsc, is
    missing.
    """
    try:
        with private_apt(SUITE, sources=any(pin.is_source for pin in pins)) as (apt, root):
            files = root / "files"
            say(f"asking the Debian archive for {len(pins) + len(unpinned)} files of {SUITE}")
            try:
                quiet([*apt, "update"], files, UPDATE_SECONDS)
                for pin in pins:  # one by one: apt fetches none if one has no such version
                    version = pin.name.split("_")[1].replace("%3a", ":")
                    binary = ["download", f"{pin.package}={version}"]
                    words = ["source", "--download-only", pin.package] if pin.is_source else binary
                    quiet([*apt, *words], files, DOWNLOAD_SECONDS)
                for package in unpinned:
                    quiet([*apt, "download", package], files, DOWNLOAD_SECONDS)
            except subprocess.TimeoutExpired as expired:
                say(f"apt-get did not finish within {expired.timeout:.0f} s")
            take(pins, files, into, "the Debian archive")
            for package in unpinned:
                for path in files.glob(f"{package}_*.deb"):
                    shutil.copyfile(path, into / f"{package}.deb")
    except FetchError as error:
        say(str(error))


def quiet(command: list[str], folder: Path, seconds: int) -> None:
    """Run a command in a folder without its output; its failure shows in the files that are missing."""
    null = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, stdin=null, stdout=null, stderr=null, timeout=seconds, check=False)


def take(pins: list[Pin], source: Path, into: Path, origin: str) -> None:
    """Copy the pinned files from ``source`` to ``into``; refuse those whose size or hash differs from the pin."""
    for pin in pins:
        # apt escapes characters such as "~" in the names of binary packages.
        files = [path for path in (source / pin.name, source / pin.name.replace("~", "%7e")) if path.is_file()]
        if not files:
            continue
        copy = into / f"{pin.name}.{os.getpid()}"
        shutil.copyfile(files[0], copy)
        if pin.matches(copy):
            copy.replace(into / pin.name)
        else:
            copy.unlink()
            say(f"refused {pin.name} from {origin}: its size or SHA-256 differs from the pinned value")


def fetch(pins: list[Pin], into: Path) -> None:
    """Make ``into`` hold every pinned file, fetched from the Debian archive, else from ``EDGECORE_THIRD_PARTY``.

    Files that ``into`` already holds are not fetched again. Raises FetchError if a file cannot be found.
    """
    into.mkdir(parents=True, exist_ok=True)
    folder = os.environ.get("EDGECORE_THIRD_PARTY")

    def missing() -> list[Pin]:
        return [pin for pin in pins if not pin.matches(into / pin.name)]

    if missing():
        apt_fetch(missing(), into)
    if missing() and folder:
        say(f"taking {len(missing())} files from {folder}")
        take(missing(), Path(folder), into, folder)
    if missing():
        names = ", ".join(pin.name for pin in missing())
        tried = f"EDGECORE_THIRD_PARTY={folder}" if folder else "EDGECORE_THIRD_PARTY is not set"
        raise FetchError(
            f"Neither the Debian archive nor a local folder ({tried}) has {names} with the pinned SHA-256; put these "
            f"files of Debian {SUITE} into a folder and set EDGECORE_THIRD_PARTY to it."
        )


# ---- unpacking


def unpack_deb(archive: Path, into: Path) -> None:
    """Unpack the files of a .deb: an ar archive (60-byte headers, members at even offsets) with a data.tar.*."""
    data = archive.read_bytes()
    offset = len(b"!<arch>\n")
    while offset < len(data):
        header = data[offset : offset + 60]
        name, size = header[:16].decode().strip(), int(header[48:58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(data[offset + 60 : offset + 60 + size])) as tar:
                extract(tar, into)
            return
        offset += 60 + size + size % 2
    raise FetchError(f"{archive.name} holds no data.tar member; delete {archive} and try again.")


def extract(tar: tarfile.TarFile, into: Path) -> None:
    """Unpack a tar archive, with the checks of its paths where this Python has them."""
    if hasattr(tarfile, "data_filter"):
        tar.extractall(into, filter="data")
    else:
        tar.extractall(into)
