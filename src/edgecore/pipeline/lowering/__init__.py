"""Lowering: from exported programs to edge programs with delegates, and then to a finished program."""

from edgecore.pipeline.lowering.lower_programs import lower as lower
from edgecore.pipeline.lowering.lower_programs import lower_to_edge as lower_to_edge
from edgecore.pipeline.lowering.lowered_program import LoweredProgram as LoweredProgram
from edgecore.pipeline.lowering.methods import PartitionerSpec as PartitionerSpec
from edgecore.pipeline.lowering.methods import Programs as Programs
from edgecore.pipeline.lowering.methods import check_methods as check_methods
from edgecore.pipeline.lowering.methods import partitioners_by_method as partitioners_by_method
from edgecore.pipeline.lowering.methods import programs_by_method as programs_by_method
from edgecore.pipeline.lowering.options import FinishOptions as FinishOptions
from edgecore.pipeline.lowering.options import LowerOptions as LowerOptions
from edgecore.pipeline.lowering.options import TransformPasses as TransformPasses
from edgecore.pipeline.lowering.options import file_alignments as file_alignments
from edgecore.pipeline.lowering.pass_dump import PassDump as PassDump
from edgecore.pipeline.lowering.whole_program import WholeBackendModule as WholeBackendModule
from edgecore.pipeline.lowering.whole_program import to_backend as to_backend
