"""The C header of the shared object of a program: its functions, and one that makes the tensor of each input."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numc.compiler.deploy.glue import functions_of
from numc.numerics.dtypes import BITS_DTYPES
from numc.runtime.abi import Abi, TensorSpec

_C_TYPES = {"float32": "float", "float64": "double", "bool": "uint8_t"}
#: What C and C++ keep for themselves, of words that inputs are called by, and what the header uses.
_KEYWORDS = frozenset({
    *("auto", "bool", "break", "case", "catch", "char", "class", "const", "continue", "default", "delete"),
    *("do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend"),
    *("goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "operator", "private"),
    *("protected", "public", "register", "restrict", "return", "short", "signed", "sizeof", "static"),
    *("struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union"),
    *("unsigned", "using", "virtual", "void", "volatile", "while", "and", "or", "not", "xor", "NULL"),
})  # fmt: skip
_DTYPES = {"float32": "F32", "float64": "F64", "bool": "I1", "bfloat16": "BF16", "float16": "F16"}


def identifier(text: str, taken: Sequence[str] = ()) -> str:
    """Return an identifier of C and of C++ that looks like a text, and is none of those taken."""
    name = re.sub(r"_+", "_", re.sub(r"[^0-9A-Za-z]", "_", text)).strip("_") or "x"
    if name[0].isdigit() or name in _KEYWORDS:
        name = f"x{name}" if name[0].isdigit() else f"{name}_"
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def c_dtype(dtype: str) -> str:
    """Return the numc_dtype of a dtype, by its name in numc.h."""
    if dtype in _DTYPES:
        return f"NUMC_{_DTYPES[dtype]}"
    short = re.sub("^float", "f", re.sub("^uint", "u", re.sub("^int", "i", dtype)))
    return f"NUMC_{short.replace('_', '').upper()}"


def c_type(dtype: str) -> str:
    """Return the type in C of the elements of a dtype; of those that C lacks, an integer with their bits."""
    memory = BITS_DTYPES.get(dtype, dtype)
    return _C_TYPES.get(memory, f"{memory}_t")


def header(name: str, library: str, abi: Abi, arithmetic: str) -> str:
    """Return the text of the header of the program `name` in the file `library`."""
    program, run = functions_of(name)
    upper = name.upper()
    inputs, outputs = _names(abi.inputs), _names(abi.results)
    listed = [
        *(f" *   input {n}, '{_plain(s.name)}': {_shape(abi, n)}" for n, s in enumerate(abi.inputs)),
        *(f" *   output {n}, '{_plain(s.name)}': {s}" for n, s in enumerate(abi.results)),
    ]
    makers = [_maker(abi, n, f"{name}_{each}") for n, each in enumerate(inputs)]
    places = [f"  {upper}_OUTPUT_{each.upper()} = {n}" for n, each in enumerate(outputs)]
    return f"""/* {library}: a network in {_plain(arithmetic)}, made by `numc export`.
 * A size of '?' follows from the inputs.
 *
{chr(10).join(listed)}
 */
#ifndef NUMC_EXPORTED_{upper}_H
#define NUMC_EXPORTED_{upper}_H

#include <numc.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_INPUTS {len(inputs)}
#define {upper}_OUTPUTS {len(outputs)}

enum {{
{("," + chr(10)).join(places)}
}};

/* numc_run of numc.h: NUMC_OK, and {len(outputs)} outputs that numc_tensor_release frees, or *error is set. */
int32_t {run}(const numc_tensor *inputs, numc_tensor *outputs, int32_t threads, char **error);

/* The program for the other functions of numc.h; NULL on failure. It lives as long as the process. */
numc_program *{program}(char **error);

{(chr(10) * 2).join(makers)}

#ifdef __cplusplus
}}
#endif
#endif
"""


def _names(specs: Sequence[TensorSpec]) -> list[str]:
    names: list[str] = []
    for spec in specs:
        names.append(identifier(spec.name, [*names, "program", "run"]))
    return names


def _plain(text: str) -> str:
    """A name of a model in a comment."""
    return re.sub(r"[^ -~]", "?", text).replace("*/", "* /")


def _sizes(abi: Abi, number: int) -> list[str]:
    """The sizes of an input, of which free ones are the names of parameters."""
    named = {at: symbol.name for symbol in abi.symbols for at in symbol.places}
    sizes, known = [], dict[str, str]()
    for d, size in enumerate(abi.inputs[number].shape):
        if size is not None:
            sizes.append(str(size))
            continue
        symbol = named.get((number, d), f"size {d}")
        if symbol not in known:
            known[symbol] = identifier(symbol, [*known.values(), "elements", "tensor"])
        sizes.append(known[symbol])
    return sizes


def _shape(abi: Abi, number: int) -> str:
    return f"{abi.inputs[number].dtype}[{', '.join(_sizes(abi, number))}]"


def _maker(abi: Abi, number: int, name: str) -> str:
    """The function that makes the tensor of an input."""
    spec, sizes = abi.inputs[number], _sizes(abi, number)
    free = dict.fromkeys(size for size in sizes if not size.isdigit())
    parameters = ", ".join([f"const {c_type(spec.dtype)} *elements", *(f"int64_t {size}" for size in free)])
    dims = ", ".join(sizes) or "0"
    return (
        f"static inline numc_tensor {name}({parameters}) {{\n"
        f"  numc_tensor tensor = {{(void *)elements, {c_dtype(spec.dtype)}, {len(sizes)}, {{{dims}}}, NULL}};\n"
        "  return tensor;\n}"
    )
