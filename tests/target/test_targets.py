from __future__ import annotations

import pytest

from circlet.backends.cpu.flags import unit_flags
from circlet.errors import TargetError
from circlet.target import host, targets
from circlet.target.features import FEATURES, host_features
from circlet.target.host import host_architecture, host_has
from circlet.target.targets import (
    Target,
    missing_on_host,
    native_target,
    parse_target,
    unfit_for_host,
)

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("x86_64", "x86_64"),
        ("x86-64-v3", "x86_64_v3"),
        ("x86_64_v3+fma+avx2", "x86_64_v3"),
        ("x86_64+fma+avx2", "x86_64+avx2+fma"),
        ("x86_64_v4+avx512vnni", "x86_64_v4+avx512vnni"),
        ("x86_64_v3+avx512vnni+avx512f", "x86_64_v3+avx512vnni"),
        ("x86_64+amx_int8", "x86_64+amx_int8"),
        ("aarch64+i8mm+dotprod+neon", "aarch64+i8mm"),
        ("ARMv7+NEON", "armv7+neon"),
        ("riscv64", "riscv64"),
    ],
)
def test_names_have_one_canonical_form(text: str, canonical: str) -> None:
    target = parse_target(text)
    assert str(target) == canonical
    assert parse_target(str(target)) == target


@pytest.mark.parametrize("text", ["", "sparc", "x86_64+neon", "x86_64_v9", "aarch64+", "_v3"])
def test_unknown_names_are_refused(text: str) -> None:
    with pytest.raises(TargetError):
        parse_target(text)


def test_native_is_an_explicit_list_that_runs_here() -> None:
    assert "native" not in str(native_target())
    assert missing_on_host(native_target()) == ()
    assert parse_target("native") == native_target()


def test_a_missing_feature_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "host_architecture", lambda: "x86_64")
    monkeypatch.setattr(targets, "host_features", lambda: frozenset({"v2", "v3", "avx2", "fma"}))
    error = unfit_for_host([parse_target("x86_64_v4+avx512vnni"), parse_target("aarch64")])
    assert "avx512vnni" in str(error) and error.code == "E-TARGET"


@pytest.mark.parametrize("name", ["native", "generic", "baseline"])
def test_what_a_target_needs_is_what_the_cpu_lacks_or_has(name: str) -> None:
    target = parse_target(name)
    assert host_has(target.needs) == (missing_on_host(target) == ())
    assert not host_has([*target.needs, "no-such-word"])
    assert not host_has(["sparc"])


def test_tiles_that_the_system_does_not_grant_are_no_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "flags\t: avx2 amx_tile amx_int8 amx_bf16\n"
    monkeypatch.setattr(host, "host_architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "_cpuinfo_text", lambda: text)
    for granted in (True, False):
        monkeypatch.setattr(host, "_may_grant_tiles", lambda granted=granted: granted)
        host.host_words.cache_clear()
        assert ("amx_int8" in host.host_words()) == granted
        assert "avx2" in host.host_words()
    host.host_words.cache_clear()


def test_host_features_are_known_names() -> None:
    assert host_features() <= set(FEATURES.get(host_architecture(), {}))


@pytest.mark.parametrize("family", ["zig", "clang", "gcc"])
def test_flags_ask_for_full_vectors_only_on_avx512(family: str) -> None:
    wide = "-mprefer-vector-width=512"
    assert wide in unit_flags(parse_target("x86_64_v4"), family)
    assert wide not in unit_flags(parse_target("x86_64_v3"), family)


def test_flags_forbid_contraction_for_every_architecture() -> None:
    for arch in FEATURES:
        assert "-ffp-contract=off" in unit_flags(Target.of(arch), "zig")
