"""The `.pte` format: data structures, reader, writer, verifier. Imports neither torch nor numpy."""

from .flat import FormatError as FormatError, pack as pack, unpack as unpack
from .program import *  # noqa: F403
from .pte import NamedBlob as NamedBlob, PteFile as PteFile, Segment as Segment
from .pte import read_pte as read_pte, write_pte as write_pte, write_pte_to as write_pte_to
