"""The contract `floors` of import-linter: every module stands on a floor, and imports only go down.

The built-in contract `layers` would need a list of every module of numc/compiler, because numc.compiler is one floor,
and numc.compiler.torch_compile one above it. Here a module belongs to the floor with the longest name that contains it,
so that a new file has a floor without being listed.
"""

from __future__ import annotations

from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils
from importlinter.application.contract_utils import AlertLevel


class Floors(Contract):
    """A module may import modules of its own floor and of those below.

    floors: packages, the highest first.
    """

    type_name = "floors"

    floors = fields.ListField(subfield=fields.StringField())
    ignore_imports = fields.SetField(subfield=fields.ImportExpressionField(), required=False)
    unmatched_ignore_imports_alerting = fields.EnumField(AlertLevel, default=AlertLevel.ERROR)

    def check(self, graph, verbose):
        """Find the imports that go up."""
        removed = contract_utils.remove_ignored_imports_and_report(
            graph=graph, ignore_imports=self.ignore_imports, unmatched_alerting=self.unmatched_ignore_imports_alerting
        )
        level = {module: _level(module, self.floors) for module in graph.modules}
        upwards = [
            (importer, imported)
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if level[imported] < level[importer]
        ]
        found = [
            f"{importer} imports {imported} (line {detail['line_number']}), which is on a higher floor"
            for importer, imported in upwards
            for detail in graph.get_import_details(importer=importer, imported=imported)
        ]
        return ContractCheck(
            kept=not found,
            warnings=list(removed.warnings),
            ignored_import_count=removed.ignored_import_count,
            metadata={"found": found},
        )

    def render_broken_contract(self, check):
        """Print the imports that go up."""
        for line in check.metadata["found"]:
            output.print_error(f"- {line}", bold=False)


def _level(module, floors):
    """The number of the floor of a module; -1, the highest, if it is on none: only numc itself and numc.__main__."""
    containing = [floor for floor in floors if f"{module}.".startswith(f"{floor}.")]
    return floors.index(max(containing, key=len)) if containing else -1
