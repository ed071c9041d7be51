"""Every error a user can meet: one hierarchy, stable codes, what / where / why / what to do."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import ClassVar

from circlet.escape import escaped
from circlet.struct import Struct
from circlet.words import counted

_SHOWN_OPS = 8
_NEXT_LINE = "\n       "


class CircletError(Exception):
    """Base of all errors that Circlet raises on purpose.

    Args:
        what: What went wrong, one clause.
        where: The user's name of the place: operator, tensor, file or option.
        why: The fact that makes it wrong, or several, a line each.
        fix: What the user can do about it.

    Attributes:
        advice: What to do where an error of the class does not say it.
        reasons: The lines of `why`.
        backend: The backend that failed, "" where none did.

    As text, names are escaped; the attributes hold them as they are.
    """

    code: ClassVar[str] = "E-CIRCLET"
    advice: ClassVar[str] = ""
    backend: str = ""

    def __init__(
        self, what: str, *, where: str = "", why: str | Sequence[str] = "", fix: str = ""
    ) -> None:
        self.reasons = (why,) if isinstance(why, str) else tuple(why)
        self.what, self.where, self.fix = what, where, fix or self.advice
        self.why = _NEXT_LINE.join(self.reasons)
        super().__init__(self.render())

    def render(self) -> str:
        """The message as text, one labelled line per part that is known."""
        lines = [f"[{self.code}] {escaped(self.what)}"]
        why = _NEXT_LINE.join(map(escaped, self.reasons))
        parts = (("where", escaped(self.where)), ("why", why), ("fix", escaped(self.fix)))
        for label, text in parts:
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The parts of the message for `--json`."""
        parts = {"what": self.what, "where": self.where, "why": self.why, "fix": self.fix}
        return {"code": self.code, **parts}

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(cls: type[CircletError], state: dict[str, object]) -> CircletError:
    """Restore an error that crossed a process boundary."""
    error = cls.__new__(cls)
    error.__dict__.update(state)
    Exception.__init__(error, error.render())
    return error


class FileError(CircletError):
    """A file cannot be read or written.

    Check the path, its permissions and the free space.
    """

    code = "E-FILE"

    @classmethod
    def unreadable(cls, what: str, path: object, error: Exception, fix: str = "") -> FileError:
        """The error of reading a file; `fix` is for one that is there but holds something else."""
        why = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.strerror:  # others are of decoders
            why, fix = error.strerror, "check the path and its permissions"
            scheme, mark, rest = str(path).partition(":/")
            if isinstance(error, FileNotFoundError) and mark and len(scheme) > 1:
                path = f"{scheme}://{rest.lstrip('/')}"  # as it was typed, if it went through Path
                why = "it is an address, and Circlet reads files only"
                fix = "download it first, then give the path of the file"
        elif isinstance(error, EOFError):
            why = "it ends too early"
        return cls(f"{what} cannot be read", where=str(path), why=why, fix=fix)


class FormatError(CircletError):
    """The bytes are not a well-formed file of the format they claim to be.

    Copy or export the file again; it may be truncated, or made for a newer schema.
    """

    code = "E-FORMAT"
    advice = "copy or export the file again; it may be damaged, or made for a newer schema"


class LimitError(CircletError):
    """A stated limit (bytes, count, depth, elements, time) was passed.

    If the model is meant to be that large, pass a larger `circlet.limits.Limits`.
    """

    code = "E-LIMIT"


class GraphError(CircletError):
    """The network is well-formed as a file but breaks a rule of the graph or of an operator.

    Export the model again; the message names the operator and the rule.
    """

    code = "E-GRAPH"
    advice = "export the network again, or give its inputs sizes that it works for"


class PassError(CircletError):
    """An optimisation pass failed or left a broken network; a defect of Circlet.

    Compile with level O0 and report the model.
    """

    code = "E-PASS"


class UnsupportedOpsError(CircletError):
    """Some operators have no record here, or not for these types; all are listed at once.

    See docs/supported-ops.md; custom operators can be taught with `circlet.register_op`.
    """

    code = "E-UNSUPPORTED-OPS"

    def __init__(self, entries: Sequence[UnsupportedOp], *, where: str = "", fix: str = "") -> None:
        self.entries = tuple(entries)
        super().__init__(
            f"{counted(len(entries), 'operator')} of this network cannot be run",
            where=where,
            why=[str(entry) for entry in self.entries],
            fix=fix or _fix_of(self.entries),
        )

    def as_dict(self) -> dict[str, object]:
        """The message parts plus one record per unsupported operator."""
        return {**super().as_dict(), "operators": [entry._asdict() for entry in self.entries]}


def _fix_of(entries: Sequence[UnsupportedOp]) -> str:
    if all(entry.kind.startswith("CUSTOM:") for entry in entries):
        return "teach custom operators with circlet.register_op, docs/adding-a-custom-operator.md"
    return "see docs/supported-ops.md for the kinds and types that are supported"


class UnsupportedOp(Struct):
    """One operator that cannot be run, in the user's terms."""

    source: str
    kind: str
    version: int
    dtypes: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source} ({self.kind} v{self.version}, {self.dtypes}): {self.reason}"


class InputError(CircletError):
    """An input given to a session, or an option of a command, does not fit what is expected.

    The message says what is expected; change the input or the option.
    """

    code = "E-INPUT"

    @classmethod
    def mistyped(cls, where: str, value: object, wanted: str) -> InputError:
        """The error of an argument that is of another type than wanted."""
        why = f"it is of type {type(value).__name__}"
        return cls("an argument has the wrong type", where=where, why=why, fix=f"give {wanted}")


def check_type(
    value: object, kinds: type | UnionType | tuple[type, ...], where: str, wanted: str
) -> None:
    """InputError where an argument is of none of the types."""
    if not isinstance(value, kinds):
        raise InputError.mistyped(where, value, wanted)


class CompilerMissingError(CircletError):
    """No C compiler was found, or it cannot be started.

    `pip install 'circlet[compile]'`, or set CIRCLET_CC, or run an artifact made elsewhere; where
    it is there, free memory or processes.
    """

    code = "E-COMPILER-MISSING"


class CompileError(CircletError):
    """The C compiler refused generated code; a defect of Circlet, or of the compiler.

    Report it with the model; try another compiler through CIRCLET_CC.
    """

    code = "E-COMPILE"


class TargetError(CircletError):
    """Code was built for CPU features that this CPU lacks, or the target name is unknown.

    Compile for `native`, or add `baseline` to the targets of the artifact.
    """

    code = "E-TARGET"


class ArtifactError(CircletError):
    """An artifact is damaged, of another version, or holds no code for this CPU.

    Compile the model again with this version of Circlet.
    """

    code = "E-ARTIFACT"


class SignatureError(CircletError):
    """An artifact is not signed by a key that is accepted, or is not the one that was asked for.

    Get it from whom you trust; accept another key or digest only if you know whose it is.
    """

    code = "E-SIGNATURE"


class CacheError(CircletError):
    """The cache directory cannot be used safely: wrong owner, unwritable, or the disk is full.

    Make it private (mode 700), free some space, or set CIRCLET_CACHE_DIR.
    """

    code = "E-CACHE"


class PlacementError(CircletError):
    """An operator was not placed where the caller demanded (`strict`, `backends`).

    Allow a further backend, or leave `strict` off.
    """

    code = "E-PLACEMENT"

    @classmethod
    def moved(cls, backend: str, ops: Sequence[tuple[str, str, str]]) -> PlacementError:
        """The error of operators (source, kind, why) that the first backend did not take."""
        count = len(ops)
        return cls(
            f"{count} operator{'s were' if count != 1 else ' was'} not taken by {backend!r}",
            where=", ".join(source for source, _, _ in ops[:_SHOWN_OPS]),
            why="; ".join(f"{kind}: {why}" for _, kind, why in ops[:_SHOWN_OPS]),
            fix="allow a further backend, or leave `strict` off",
        )


class DeadlineError(CircletError):
    """A run passed its timeout and was stopped.

    Allow more time or more threads.
    """

    code = "E-TIMEOUT"

    @classmethod
    def passed(cls) -> DeadlineError:
        """The error of a run that took too long."""
        return cls(
            "the run passed its timeout",
            where="`timeout` of the run, or `run_seconds` of the session's limits",
            fix="allow more time or more threads",
        )


class CancelledError(CircletError):
    """A run was cancelled by the caller.

    Run it again if that was not meant.
    """

    code = "E-CANCELLED"


class BackendError(CircletError):
    """A backend failed while running.

    The message names the operator; if the inputs are sound, report it with the model.
    """

    code = "E-BACKEND"

    @classmethod
    def failed(
        cls, backend: str, doing: str, ops: Sequence[str], error: BaseException
    ) -> BackendError:
        """The error of a backend that failed while `doing` something with operators, by name."""
        if isinstance(error, CircletError):
            why: Sequence[str] = [error.what, *filter(None, error.reasons)]
        else:
            why = [f"{type(error).__name__}: {error}"]
        names = ", ".join(filter(None, ops[:_SHOWN_OPS]))
        more = f" and {len(ops) - _SHOWN_OPS} more" if len(ops) > _SHOWN_OPS else ""
        where = f"backend {backend}, operators {names}{more}" if names else f"backend {backend}"
        fix = "name another backend, or one that takes over (`fallback`)"
        made = cls(f"a backend failed {doing}", where=where, why=why, fix=fix)
        made.backend = backend
        return made


class FleetError(CircletError):
    """The scheduler, the workers or the storage of a fleet cannot be reached, or are gone.

    Start them again and repeat the command: a study goes on where it was.
    """

    code = "E-FLEET"
    advice = "start what is missing again and repeat the command: a study goes on where it was"


class NNAPIError(CircletError):
    """A call of the Android Neural Networks API ended in a result code other than NO_ERROR.

    `result` is that code; docs/nnapi-c.md says which calls give which codes, and when.
    """

    code = "E-NNAPI"

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        why: str | Sequence[str] = "",
        fix: str = "",
        result: int = 5,
    ) -> None:
        self.result = result
        super().__init__(what, where=where, why=why, fix=fix)

    def as_dict(self) -> dict[str, object]:
        """The message parts and the result code."""
        return {**super().as_dict(), "result": self.result}
