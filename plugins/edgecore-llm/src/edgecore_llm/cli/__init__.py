"""The commands `edgecore llm ...`."""

import typer

from edgecore_llm.cli import bench, chat, evaluate, export, run, tokenizer

command = typer.Typer(help="Language models: export a checkpoint, run and measure the file.", no_args_is_help=True)
command.command("export")(export.export_command)
command.command("export-llama", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(
    export.export_llama_command
)
command.command("run")(run.run_command)
command.command("chat")(chat.chat_command)
command.command("bench")(bench.bench_command)
command.command("eval")(evaluate.eval_command)
command.command("tokenizer")(tokenizer.tokenizer_command)
