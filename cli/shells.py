"""Completion in bash, zsh and fish: the scripts that shells read, and what they ask for at each Tab.

click has scripts of its own. In these, names are also completed behind ``--fma=`` and behind a comma in every shell,
and file names wherever nothing else is.
"""

from __future__ import annotations

import os
from typing import Any

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n'
    mapfile -t COMPREPLY < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")
    [[ -n ${COMPREPLY[0]} ]] || COMPREPLY=()
}
complete -o nosort -o default -F %(complete_func)s %(prog_name)s
"""
_ZSH = """\
#compdef %(prog_name)s
%(complete_func)s() {
    local line
    local -a plain described
    local answer="$(COMP_WORDS="${(F)words}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete $words[1])"
    for line in "${(@f)answer}"; do
        if [[ $line == *$'\\t'* ]]; then
            described+=("${${line%%%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
        elif [[ -n $line ]]; then
            plain+=("$line")
        fi
    done
    if (( $#described )); then
        _describe -V %(prog_name)s described
    elif (( $#plain )); then
        compadd -V %(prog_name)s -a plain
    else
        compset -P '*='
        _files
    fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH = """\
function %(complete_func)s
    set -l token (commandline -ct)
    set -l found (env COMP_WORDS=(commandline -cp | string collect) COMP_CWORD="$token" \
%(complete_var)s=fish_complete %(prog_name)s)
    if test -n "$found[1]"
        printf '%%s\\n' $found
    else
        set -l before (string match -r -- '^-.*=' $token)
        for path in (__fish_complete_path (string replace -r -- '^-.*=' '' $token))
            echo "$before$path"
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
_BREAKS = frozenset("=:")
"""Signs that are words of their own for bash, in its default setting."""


class _Whole(ShellComplete):
    """Completes whole words. A shell may have broken them at signs, and replaces only what is behind the last one."""

    _before = ""
    """The beginning of the word, which the shell keeps."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and what there is of it."""
        typed = os.environ["COMP_WORDS"].split("\n")[: int(os.environ["COMP_CWORD"]) + 1]
        *args, whole = _glued(typed)
        self._before = whole.removesuffix("" if _is_break(typed[-1]) else typed[-1])
        unquoted = split_arg_string(whole)
        return [word for arg in args[1:] for word in split_arg_string(arg)], unquoted[-1] if unquoted else ""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return what the word may become. Behind the = of an option, click completes what is behind it alone."""
        option, equals, _ = incomplete.partition("=")
        named = option + equals if equals and option.startswith("-") else ""
        items = [item for item in super().get_completions(args, incomplete) if item.type == "plain"]
        for item in items:
            item.value = (named + item.value).removeprefix(self._before)
        return items

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line of a name, with what it means, if that is known."""
        return f"{item.value}\t{' '.join(item.help.split())}" if item.help else str(item.value)


class Bash(_Whole):
    """Has no place for what a name means."""

    name, source_template = "bash", _BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the name."""
        return str(item.value)


class Zsh(_Whole):
    """Breaks no words."""

    name, source_template = "zsh", _ZSH


class Fish(_Whole):
    """Gives the line up to the cursor, and the word that is completed."""

    name, source_template = "fish", _FISH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and what there is of it."""
        args, token = split_arg_string(os.environ["COMP_WORDS"])[1:], os.environ["COMP_CWORD"]
        whole = split_arg_string(token)
        if whole and args and args[-1] == whole[-1]:
            args.pop()
        return args, whole[-1] if whole else ""


def add_shells() -> None:
    """Let click give these scripts out, and answer them."""
    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell)


def _is_break(word: str) -> bool:
    return bool(word) and set(word) <= _BREAKS


def _glued(words: list[str]) -> list[str]:
    """Join what bash has broken at signs."""
    whole: list[str] = []
    for n, word in enumerate(words):
        if n > 1 and (_is_break(word) or _is_break(words[n - 1])):
            whole[-1] += word
        else:
            whole.append(word)
    return whole
