"""The text of a shell is split into words as a shell would split it, and nothing is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from policy.intake.command.expansion import MAX_COPIED, MAX_FILLED, MAX_TEXT, MAX_WORDS, ShellSyntaxError
from policy.intake.command.kubernetes_references import expand_references
from policy.intake.command.shell import parse_script
from policy.intake.command.words import Pattern, Unknown

ENV = {"TP": "4", "EMPTY": "", "MANY": " -tp  2 --enforce-eager ", "HIDDEN": None}


@table(
    ("text", "words"),
    [
        ("vllm serve m -tp 2", ["vllm", "serve", "m", "-tp", "2"]),
        ("a \\\n  b\\\r\n c", ["a", "b", "c"]),
        ("a # b c", ["a"]),
        ("a b#c", ["a", "b#c"]),
        ("a 'b c' \"d e\" f\\ g ''", ["a", "b c", "d e", "f g", ""]),
        ("""a '{"k": "v w"}' "{\\"k\\": \\$1}" """, ["a", '{"k": "v w"}', '{"k": $1}']),
        ('a "b\\\nc" "d\\e"', ["a", "bc", "d\\e"]),
        ("a 'b'\"c\"d", ["a", "bcd"]),
        ("a $TP ${TP} x${TP}y \"$TP\" '$TP' \\$TP", ["a", "4", "4", "x4y", "4", "$TP", "$TP"]),
        ("a ${NO:-7} ${NO-8} ${NO:=9} ${TP:-7} ${EMPTY:-7} ${EMPTY-7}", ["a", "7", "8", "9", "4", "7"]),
        ("a ${TP:+yes} ${EMPTY:+yes} ${EMPTY+yes} ${TP:?gone} ${NO:-'b'}", ["a", "yes", "yes", "4", "b"]),
        ("a $MANY b", ["a", "-tp", "2", "--enforce-eager", "b"]),
        ('a "$MANY"', ["a", " -tp  2 --enforce-eager "]),
        ("a $EMPTY b", ["a", "b"]),
        ("a $ b$", ["a", "$", "b$"]),
        ("a $'b c'", ["a", "b c"]),
        ("a >log 2>&1 </dev/null 2> 'e r' b &", ["a", "b"]),
        ("a b2>log", ["a", "b2"]),
        ("a <<<here", ["a"]),
        ("a b\\", ["a", "b\\"]),
        ("{ a; }", ["a"]),
    ],
)
def test_a_text_is_split_into_words_as_by_a_shell(text: str, words: list[str]) -> None:
    assert parse_script(text, ENV)[0].words == words


@table(
    "text",
    [
        "$(cat x)",
        "`cat x`",
        "$NOBODY",
        "${NOBODY}",
        "${TP%x}",
        "${NO:-$(cat x)}",
        "$HIDDEN",
        "${HIDDEN:-2}",
        "${#TP}",
        "${NO:?gone}",
        "$9",
        "$?",
        "$(a $(b))",
    ],
)
def test_an_expansion_that_only_a_running_shell_knows_is_left_as_written(text: str) -> None:
    for written in (f"a {text}", f'a "{text}"'):
        word = parse_script(written, ENV)[0].words[1]
        assert (type(word), word) == (Unknown, text)


@table(
    "text",
    [
        *(
            "${NO:+x}",
            "${NO+x}",
            "a${NO:+x}",
            "${PATH:-x}",
            "${HOME-x}",
            "${OPTIND:-0}",
            "${RANDOM}",
            "${#TP}",
            "${!TP}",
        ),
        *(
            "${TP:0:1}",
            "${TP#4}",
            "${TP/4/5}",
            "${NO?x}",
            "$[1]",
            "$(a)",
            "`a`",
            "$NO",
            "$*x$NO",
            "~",
            "*",
            "a?",
        ),
        *("{a,b}", "a{1..3}", '{"a",b}', "{a,{b,c}}", '{a,"b"}', "$MANY*", "${NO:-~}", "${NO:-*}"),
    ],
)
def test_an_uncertain_expansion_outside_quotes_may_be_any_number_of_words(text: str) -> None:
    for is_bash in (True, False):
        word = parse_script(f"a --port {text}", ENV, is_bash=is_bash)[0].words[-1]
        assert type(word) is Pattern or (type(word) is Unknown and word.is_several)


@table("text", ['"$NO"', '"${NO:+x}"', '"$(a b)"', '"`a`"', '"${TP%4}"', '"$*"', '"${X[*]}"'])
def test_an_uncertain_expansion_in_quotes_is_one_word(text: str) -> None:
    word = parse_script(f"f() {{ a {text}; }}", ENV)[1].words[-1]
    assert (type(word), isinstance(word, Unknown) and word.is_several) == (Unknown, False)


@pytest.mark.parametrize("text", ["$LWS_LEADER_ADDRESS", "${HOSTNAME}", "$A_SERVICE_PORT_HTTP", "$((NO + 1))"])
def test_a_variable_of_shells_and_controllers_is_one_word(text: str) -> None:
    word, after_ifs, stated = (
        parse_script(script, env)[-1].words[-1]
        for script, env in (
            (f"a --b {text}", {}),
            (f"IFS=1; a --b {text}", {}),
            (f"read LWS_LEADER_ADDRESS; a --b {text}", dict.fromkeys(["HOSTNAME", "A_SERVICE_PORT_HTTP"])),
        )
    )
    assert (type(word), isinstance(word, Unknown) and word.is_several) == (Unknown, False)
    assert isinstance(after_ifs, Unknown)
    assert after_ifs.is_several
    assert isinstance(stated, Unknown)
    assert stated.is_several is not text.startswith("$((")


@pytest.mark.parametrize("text", ['"$@"', '"${@}"', '"${X[@]}"', '"${X[@]:1}"', '"${!TP}"'])
def test_an_expansion_that_quotes_do_not_join_may_be_any_number_of_words(text: str) -> None:
    word = parse_script(f"f() {{ a {text}; }}", ENV)[1].words[-1]
    assert isinstance(word, Unknown)
    assert word.is_several


@table(
    "text",
    [
        "IFS=:; A=b:c; r $A",
        "IFS=: :; A=b:c; r $A",
        "export IFS=:; A=b:c; r $A",
        "read IFS; A=b:c; r $A",
        "unset IFS; A=b:c; r $A",
        "f() { IFS=:; }; A=b:c; r $A",
        *(f"IFS=,; set -- {word}; r {arguments}" for word in ("b", "'{'", "b,c") for arguments in ("$@", "$*", "$1")),
        "IFS=,; A=(b); r ${A[@]}",
        "A=1; f() { A=2; }; A=3; f; r $A",
        "A=1; { A=2; } & r $A",
        "A=1; { A=2; } | b; r $A",
        "A=1; read -rA; r $A",
        "A=1; printf -vA %s 2; r $A",
        "A=1; wait -p A; r $A",
        "A=1; export -n A; r $A",
        "A=1; readonly A; A=2; r $A",
        "for ((A=1;A<2;A++)); do b; done; r $A",
        ": ${NO-${A=2}}; r $A",
        "A=~; r $A",
        *(
            f"{name}=1; r ${name}"
            for name in ("RANDOM", "COLUMNS", "LINES", "SECONDS", "LINENO", "PIPESTATUS", "SHLVL")
        ),
    ],
)
def test_a_variable_that_may_have_changed_before_is_unknown(text: str) -> None:
    word = parse_script(text, {})[-1].words[-1]
    assert (type(word), isinstance(word, Unknown) and word.is_several) == (Unknown, True)


@table("name", ["COLUMNS", "LINES", "PPID", "RANDOM", "SECONDS", "LINENO", "OPTIND", "PIPESTATUS", "SHLVL", "_"])
@table("value", ["", "80"])
def test_a_variable_that_a_shell_sets_itself_is_unknown(name: str, value: str) -> None:
    written = f"${{{name}:+--enable-dbo}}"
    words = [
        parse_script(f"a; r {written}", {name: value})[-1].words,
        parse_script(f"{name}={value}; a; r {written}", {})[-1].words,
    ]
    assert words == [["r", written], ["r", written]]
    assert all(type(each[1]) is Unknown for each in words)


@table(
    "text",
    [
        "declare -u A=b; r $A",
        "declare -n A=B; r $A",
        "declare -i A=1-1; r $A",
        "alias r=b; r",
        "shopt -s expand_aliases; r",
        "set -k; r A=1",
        "trap 'A=2' DEBUG; r",
        "trap 'exec b' EXIT; r",
        "eval A=2; r",
        ". ./env; r",
        "source env; r",
        "export $(cat env); r",
        "r() { b; }; r",
        "export() { b; }; export A=1; r",
        "A=1; f() { r $A; }; A=2; f",
        "A=1; for i in 1 2; do r $A; A=2; done",
        "command export A=2; r",
        "coproc A { b; }; r",
        "f() if b; then A=1; fi; r",
        "false && set -a; r",
        'r $"x"',
        "function f { b; }; r",
        "log() { echo $1; }; log a; A=1; r $A",
        "declare A=1; r",
        "A=b eval 'r'; r",
    ],
)
def test_a_script_that_changes_how_it_is_read_is_in_doubt(text: str) -> None:
    commands = parse_script(text, {}, is_bash=True)
    assert any(command.words[0] == "r" and command.doubt for command in commands)


@table("text", ["A=1; A+=2; r $A", "r $'x'", "r a &>b c", "A=(a b); r ${A[@]}", "A=a; r ${A/a/b}", "A=a; r ${A:0:1}"])
def test_syntax_of_bash_is_in_doubt_in_another_shell(text: str) -> None:
    for is_bash in (True, False):
        assert bool(parse_script(text, {}, is_bash=is_bash)[-1].doubt) is not is_bash


@table(
    "text",
    [
        "set -eu; cd /x; r",
        "trap 'kill $(jobs -p)' EXIT TERM; r",
        "trap - TERM; r",
        "while ! curl x; do sleep 1; done; r",
        "export A=1 && r",
        "ulimit -n 4; mkdir -p x; r",
    ],
)
def test_an_ordinary_script_is_not_in_doubt(text: str) -> None:
    assert parse_script(text, {})[-1].doubt == ""


@table(
    "text",
    [
        '$(echo ")" -- "(")',
        "$(echo ')')",
        "`echo \\`b\\``",
        '$(a "$(b ")")")',
        "$((1 << 2))",
        "$(a \\))",
    ],
)
def test_an_expansion_ends_where_a_shell_ends_it(text: str) -> None:
    assert parse_script(f'a "{text}" --b', {})[0].words == ["a", text, "--b"]


@pytest.mark.parametrize("text", ["$(case a in a) b;; esac)", "$(a # )\n)", "${A#'}'}", "$(a <<b)", "$(a $'\\'' )"])
def test_an_expansion_without_a_certain_end_is_refused(text: str) -> None:
    with pytest.raises(ShellSyntaxError, match="the end of the expansion at character 3 is not certain"):
        parse_script(f"a {text}", {})


@table(
    ("text", "words"),
    [
        ('x=(a b); x+=(c); r "${x[@]}"', ["r", "a", "b", "c"]),
        ('x=(a b)\nr -- "${x[@]}" -- ${x[*]}', ["r", "--", "a", "b", "--", "a", "b"]),
        ('x=(a b); r "${x[*]}"', ["r", "a b"]),
        ('x=("a b" c\\ d); r "${x[@]}"', ["r", "a b", "c d"]),
        ('x=("a b"); r ${x[@]}', ["r", "a", "b"]),
        ('x=(a b c); r "${x[0]}" ${x[2]} $x "${x}" "${x[@]:1}" ${x[3]}', ["r", "a", "c", "a", "a", "b", "c"]),
        ('x=(\n a # one\n\n b\n)\nr "${x[@]}"', ["r", "a", "b"]),
        ('x=(); x+=(a); r "${x[@]}"', ["r", "a"]),
        ('x+=(a); r "${x[@]}"', ["r", "a"]),
        ('x=(); r "${x[@]}" b', ["r", "b"]),
        ('declare -a x; x+=(a); r "${x[@]}"', ["r", "a"]),
        ('declare -a x=(a b); r "${x[@]}"', ["r", "a", "b"]),
        ('readonly x=(a b); r "${x[@]}"', ["r", "a", "b"]),
        ('y=(a); x=("${y[@]}" b); r "${x[@]}"', ["r", "a", "b"]),
        ('y="a b"; x=($y "$y"); r "${x[@]}"', ["r", "a", "b", "a b"]),
        ('y=a; y+=(b); r "${y[@]}"', ["r", "a", "b"]),
        ('x=(a b); r "<${x[@]}>"', ["r", "<a", "b>"]),
        ('x=(r a); "${x[@]}" b', ["r", "a", "b"]),
        (": ${y:=a}; r $y", ["r", "a"]),
        ("true && x=(a) && r ${x[@]}", ["r", "a"]),
    ],
)
def test_an_array_expands_to_its_elements(text: str, words: list[str]) -> None:
    command = parse_script(text, {})[-1]
    assert (command.words, [word for word in command.words if type(word) is Unknown]) == (words, [])


@table(
    "text",
    [
        'x=(a); if b; then x+=(c); fi; r "${x[@]}"',
        'x=(a)\n[ 1 ] && x+=(b)\nr "${x[@]}"',
        'x=(a); for y in b; do x+=("$y"); done; r "${x[@]}"',
        'x=(a); x[1]=b; r "${x[@]}"',
        'x=(a b); x=c; r "${x[@]}"',
        'x=(a); x+=b; r "${x[@]}"',
        'x=([1]=a); r "${x[@]}"',
        'declare -A x=([a]=b); r "${x[@]}"',
        'x=("$NO"); r "${x[@]}"',
        'x=(a); r "${x[@]:0:1}"',
        'x=(a); r "${#x[@]}"',
        'x=(a); mapfile -t x <f; r "${x[@]}"',
        "x=a; ((x=1)); r $x",
        "x=a; if ((x++)); then true; fi; r $x",
        "((x = 1)); r ${x:+a}",
        "let x=1; r ${x:+a}",
        'let "x += 1" y=2; r ${y:+a}',
        "echo $((x=1)); r ${x:+a}",
        "x=a; read -r x <f; r $x",
        "x=a; printf -v x %s b; r $x",
        "x=a; for x in b; do r $x; done",
        "x=a; unset x; r $x",
        "x=a; getopts b x; r $x",
    ],
)
def test_a_variable_that_a_script_sets_in_another_way_is_unknown(text: str) -> None:
    command = next(command for command in parse_script(text, {}) if command.words[0] == "r")
    assert type(command.words[-1]) is Unknown


@table(
    ("text", "words"),
    [
        ('x=(a b)\nif c; then x+=(d); fi\nr "${x[@]}" e', ["r", "a", "b", "${x[@]}", "e"]),
        ('x=(a)\n[ 1 ] && x+=(b)\nr "${x[@]}"', ["r", "a", "${x[@]}"]),
        ('x=(a)\nfor y in b; do x+=("$y"); done\nif z; then x+=(c); fi\nr "${x[@]}"', ["r", "a", "${x[@]}"]),
        ('x=(a)\nz && { x+=(b); }\nr "${x[@]}"', ["r", "a", "${x[@]}"]),
        ('x=()\ncase z in a) x=(b) ;; esac\nr "${x[@]}"', ["r", "${x[@]}"]),
        ('x=(a)\nif c; then x+=(b); else x+=(d); fi\nr "${x[@]}"', ["r", "a", "${x[@]}"]),
        ('x=(a)\nif c; then x+=(b); elif d; then x+=(e); fi\nr "${x[@]}"', ["r", "a", "${x[@]}"]),
    ],
)
def test_elements_that_may_be_added_to_an_array_are_unknown_and_the_others_stay(text: str, words: list[str]) -> None:
    found = next(command for command in parse_script(text, {}, is_bash=True) if command.words[0] == "r")
    unknown = [word for word in found.words if type(word) is Unknown]
    assert (found.words, [(word, word.is_several) for word in unknown]) == (words, [("${x[@]}", True)])


@pytest.mark.parametrize(
    "text",
    [
        'x=(a b); if c; then x=(d); fi; r "${x[@]}"',
        'x=(a b); c && x=(a d); r "${x[@]}"',
        'x=(a b); c && x+=(d) && x=(e); r "${x[@]}"',
        'x=(a b); if c; then unset x; fi; r "${x[@]}"',
        'x=(a b); if c; then x=(d); else x+=(e); fi; r "${x[@]}"',
    ],
)
def test_an_array_that_may_be_another_one_is_unknown(text: str) -> None:
    found = next(command for command in parse_script(text, {}, is_bash=True) if command.words[0] == "r")
    assert ([*found.words], type(found.words[1])) == (["r", "${x[@]}"], Unknown)


def test_an_array_that_starts_vllm_may_start_it() -> None:
    text = 'x=(vllm); x+=(serve m); if a; then x+=(b); fi; exec "${x[@]}"'
    assert ["x=(vllm serve m)"] in [command.words for command in parse_script(text, {})]


@pytest.mark.parametrize("text", ["((a); r b)", "( (r b) )", "((r b); (c))"])
def test_two_subshells_are_not_a_calculation(text: str) -> None:
    assert ["r", "b"] in [command.words for command in parse_script(text, {})]


def test_calculations_count_towards_the_limit_of_words() -> None:
    with pytest.raises(ShellSyntaxError, match="words, which is the limit"):
        parse_script("((a));" * (MAX_WORDS + 1), {})


def test_the_number_before_a_redirection_may_be_of_any_length() -> None:
    for number in ("2" * 5000, "0" * 5000 + "1", "1"):
        assert parse_script(f"r a {number}>x b", {})[0].words == ["r", "a", "b"]


@table("text", ["x=(a", "x=(a; b)", "x=(a <b)", "x=(", "x=(\\", "x=(a\\", "x=( \\", "x=(a\n\\"])
def test_an_array_that_is_not_closed_is_a_fault(text: str) -> None:
    with pytest.raises(ShellSyntaxError, match="the array at character 3 is not closed"):
        parse_script(text, {})


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a && b || c; d | e & f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("if true; then a; fi", [["true"], ["a"], ["fi"]]),
        ("(a; b)", [["a"], ["b"]]),
        ("", []),
        ("A=b", []),
    ],
)
def test_separators_separate_commands(text: str, commands: list[list[str]]) -> None:
    assert [command.words for command in parse_script(text, {})] == commands


@table(
    ("text", "env"),
    [
        ("A=b run", {"A": "b"}),
        ("export A=b C; run", {"A": "b"}),
        ("A=b; run", {}),
        ("A=b; export A; run", {"A": "b"}),
        ("TP=8; run", {"TP": "8"}),
        ("set -a; A=b; run", {"A": "b"}),
        ("A=$(cat x) run", {"A": None}),
        ("export A=$(cat x); run", {"A": None}),
        ("declare -x A=b; run", {"A": "b"}),
        ("declare A=b; run", {}),
        ("'A'=b run", {}),
        ("A=1; export B=$A$TP; run", {"B": "14"}),
        ("export A=1; A+=2; run", {"A": "12"}),
        ("TP+=2 run", {"TP": "42"}),
        ("export A; A+=2; run", {"A": None}),
        ("a=vl; a+=lm; export B=$a; run", {"B": "vllm"}),
        ("cd /x && export A=1 && run", {"A": "1"}),
        ("cd /x &&\n export A=1 &&\n\n run", {"A": "1"}),
        ("cd /x && (export A=1; run)", {"A": "1"}),
        ("cd /x && { export A=1; run; }", {"A": "1"}),
        ("export A=1 && export B=2; run", {"A": "1", "B": "2"}),
        ("true && : && A=1 && export B=$A; run", {"B": "1"}),
        ("cd /x && export A=1; run", {"A": None}),
        ("cd /x && export A=1\nrun", {"A": None}),
        ("cd /x && export A=1 || true; run", {"A": None}),
        ("cd /x && export A=1 & run", {}),
        ("cd /x && export A=1 || run", {"A": None}),
        ("false && export TP=0; run", {"TP": None}),
        ("true || export TP=0; run", {"TP": None}),
        ("a || export TP=0 && run", {"TP": None}),
        ("a || b && export TP=0 && run", {"TP": "0"}),
        ("export TP=4; false && export TP=4; run", {"TP": "4"}),
        ("(false) && export TP=0; run", {"TP": None}),
        ("{ false; } && export TP=0; run", {"TP": None}),
        ("false && { export TP=0; }; run", {"TP": None}),
        ("{ export TP=0; }; run", {"TP": "0"}),
        ("a=$(false) && export TP=0; run", {"TP": None}),
        ("true | false && export TP=0; run", {"TP": None}),
        ("a && (b); export TP=0; run", {"TP": "0"}),
        ("a && b; export TP=0; run", {"TP": "0"}),
        ("a && if b; then c; fi; export TP=0; run", {"TP": "0"}),
        ("A=0; false && export A; run", {"A": None}),
        ("set -a; (set +a); A=b; run", {"A": "b"}),
        ("(set -a); A=b; run", {}),
        ("(set -a; B=a); A=b; run", {}),
        ("export A=1; (unset A); A=2; run", {"A": "2"}),
        ("export A=1; (declare +x A); A=2; run", {"A": "2"}),
        ("(A=1; readonly A); export A=2; run", {"A": "2"}),
        ("(A=(1 2)); export A=2; run", {"A": "2"}),
        ("A=1; (export A); A=2; run", {}),
    ],
)
def test_a_command_gets_the_variables_that_the_text_exports(text: str, env: dict[str, str | None]) -> None:
    assert parse_script(text, ENV)[-1].env == env


@table(
    ("text", "is_several"),
    [
        ("for a in x y; do r $a; done", False),
        ("for a in x --b=y,z:1; do r ${a}; done", False),
        ("for a in x y; do if c; then r $a; fi; done", False),
        ("for a in x y; do c; done; r $a", True),
        ("for a in x 'y z'; do r $a; done", True),
        ("for a in x *; do r $a; done", True),
        ("for a in x ''; do r $a; done", True),
        ("for a in x $NO; do r $a; done", True),
        ("for a; do r $a; done", True),
        ("for a in x y; do a=$(c); r $a; done", True),
        ("for a in x y; do read a; r $a; done", True),
        ("for a in x y; do (a='p q'); r $a; done", True),
        ("for a in x y; do for a in 'p q'; do c; done; r $a; done", True),
        ("IFS=.; for a in x.y; do r $a; done", True),
        ("for a in x.y; do IFS=.; r $a; done", True),
        ("for _ in x y; do r $_; done", True),
        ("readonly a; for a in x y; do r $a; done", True),
        ("f() { a='p q'; }; for a in x y; do f; r $a; done", True),
    ],
)
def test_the_variable_of_a_loop_over_plain_words_is_one_word(text: str, is_several: bool) -> None:  # noqa: FBT001  # a table's value
    word = next(command.words[1] for command in parse_script(text, {}) if command.words[0] == "r")
    assert (type(word), isinstance(word, Unknown) and word.is_several) == (Unknown, is_several)
    replaced = Unknown(text, names=frozenset({"a"}))
    word = next(command.words[1] for command in parse_script(replaced, {}) if command.words[0] == "r")
    assert isinstance(word, Unknown)
    assert word.is_several


def test_the_arguments_of_a_script_are_its_positional_parameters() -> None:
    assert parse_script('run "$@" $1 $0', {}, ["sh", "a b", "c"])[0].words == ["run", "a b", "c", "a", "b", "sh"]
    assert parse_script('run "$@" x', {})[0].words == ["run", "x"]


@table(
    ("text", "words"),
    [
        ('set -- a "b c"; run "$@"', ["run", "a", "b c"]),
        ('set -- a; set -- "$@" b; run $1 $2', ["run", "a", "b"]),
        ('set --; run "$@" x', ["run", "x"]),
        ('shift; run "$@"', ["run", "two", "three"]),
        ('shift 2; run "$@"', ["run", "three"]),
        ('shift $N; run "$@"', ["run", "$@"]),
        ('if a; then set -- x; fi; run "$@"', ["run", "$@"]),
        ('a && set -- x; run "$@"', ["run", "$@"]),
        ('(set -- x); run "$@"', ["run", "$@"]),
        ('set -- x | a; run "$@"', ["run", "one", "two", "three"]),
    ],
)
def test_a_script_changes_its_arguments(text: str, words: list[str]) -> None:
    found = parse_script(text, {}, ["sh", "one", "two", "three"])[-1].words
    assert (found, [type(word) is Unknown for word in found]) == (words, [word == "$@" for word in words])


@pytest.mark.parametrize(
    "text", ["$(vllm serve m)", "`exec /usr/bin/vllm serve m`", "${A:-$(python -m vllm.entrypoints.openai.api_server)}"]
)
def test_a_substitution_that_may_start_vllm_is_an_unknown_command(text: str) -> None:
    for script in (f"echo {text}", f'echo "{text}"', f"A={text}", f"export A={text}"):
        found = parse_script(script, {})[0].words
        assert (found, type(found[0])) == ([text], Unknown)


@table(
    ("text", "message"),
    [
        ("a 'b", "the quote `'` at character 3 is not closed; close it"),
        ('a "b', 'the quote `"` at character 3 is not closed; close it'),
        ("a $(b", "the bracket `(` at character 4 is not closed; close it"),
        ("a ${b", "the bracket `{` at character 4 is not closed; close it"),
        ("a ```b", "the backtick at character 5 is not closed; close it"),
        ("a `b", "the backtick at character 3 is not closed; close it"),
        ("a <<EOF\nb\nEO", "the here-document at character 3 has no end; write `EOF` alone in a line"),
        (
            "a <<EOF 'x\ny'\nEOF",
            "the line of the here-document at character 3 goes on in the next one; write it as one",
        ),
        ("a " * (MAX_WORDS + 1), f"more than {MAX_WORDS} words, which is the limit"),
        ("a" * (MAX_TEXT + 1), f"expected a text of at most {MAX_TEXT} characters, got {MAX_TEXT + 1}"),
        (
            "$A" * 11,
            f"the values of its variables have more than {MAX_FILLED} characters, which is the limit",
        ),
        (
            "$@" * 11,
            f"the values of its variables have more than {MAX_FILLED} characters, which is the limit",
        ),
        (
            "set -a;" + "".join(f"A{n}=1;b;" for n in range(1000)),
            f"its commands have more than {MAX_COPIED} variables in total, which is the limit",
        ),
    ],
)
def test_an_invalid_command_is_a_fault_with_its_position(text: str, message: str) -> None:
    with pytest.raises(ShellSyntaxError) as caught:
        parse_script(text, {"A": "x" * (MAX_FILLED // 10)}, ["sh", "x" * (MAX_FILLED // 10)])
    assert str(caught.value) == message


@table(
    ("word", "filled", "kind"),
    [
        ("plain", "plain", str),
        ("$(TP)", "4", str),
        ("a$(TP)b$(TP)", "a4b4", str),
        ("$$(TP)", "$(TP)", str),
        ("$$$(TP)", "$4", str),
        ("$(NOBODY)", "$(NOBODY)", str),
        ("$TP", "$TP", str),
        ("$(HIDDEN)", "$(HIDDEN)", Unknown),
        (Unknown("$(TP)"), "4", Unknown),
        ("$((3$(TP)))", "$((3$(TP)))", str),
        ("#$(\n-tp 3$(TP) $(TP)", "#$(\n-tp 3$(TP) 4", str),
        ("'$(' $(TP) $(HIDDEN", "'$(' $(TP) $(HIDDEN", str),
        ("$()$(TP)$", "$()4$", str),
        ("$(TP)$$$$(", "4$$(", str),
        ("$a$$b$", "$a$b$", str),
    ],
)
def test_kubernetes_substitutes_known_variables_and_leaves_the_rest(word: str, filled: str, kind: type) -> None:
    found = expand_references(word, ENV)
    assert (found, type(found)) == (filled, kind)


@table(
    ("word", "kind"),
    [
        ("$(NOBODY)", Unknown),
        ("a$(.no-body_1)", Unknown),
        ("$(cat x)", str),
        ("$(1)", str),
        ("$$(NOBODY)", str),
        ("$(TP)", str),
    ],
)
def test_an_unknown_name_may_be_set_but_a_command_substitution_is_not_a_name(word: str, kind: type) -> None:
    assert type(expand_references(word, ENV, has_hidden_variables=True)) is kind
    assert type(expand_references(word, ENV)) is str


def test_kubernetes_accepts_almost_any_text_as_a_name() -> None:
    assert expand_references("$(a b)$(c:d)", {"a b": "1", "c:d": "2"}) == "12"


@given(st.text(alphabet="aA1 =$(){}`'\"\\\n#;&|<>:-+?@*!~\x00é", max_size=60))
def test_any_text_gives_commands_or_a_fault(text: str) -> None:
    try:
        commands = parse_script(text, ENV, ["sh", "one"])
    except ShellSyntaxError:
        return
    assert all(command.words for command in commands)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        (Unknown("vllm serve m '$(X)' 'b'"), [False, False, False, True, False]),
        (Unknown('a \'{"k": "${X!}"}\' "$(X)"'), [False, True, True]),
        (Unknown("a 'b'"), [False, False]),
        ("a '$(X)' '${X!}'", [False, False, False]),
    ],
)
def test_a_reference_of_an_unknown_script_is_unknown_in_single_quotes_too(text: str, unknown: list[bool]) -> None:
    assert [type(word) is Unknown for word in parse_script(text, {})[0].words] == unknown


@pytest.mark.parametrize(
    ("begin", "end"), [("(", ")"), ("{ ", ";}"), ("if true; then ", ";fi"), ("while true; do ", ";done")]
)
def test_the_depth_of_blocks_is_limited(begin: str, end: str) -> None:
    commands = parse_script(f"{begin * 500}vllm serve m{end * 500}", {})
    assert ["vllm", "serve", "m"] in [command.words for command in commands]
    with pytest.raises(ShellSyntaxError, match=r"^its blocks are nested more than 1000 deep, which is the limit$"):
        parse_script(f"{begin * 1001}vllm serve m{end * 1001}", {})


@table(
    ("text", "value"),
    [
        ("A=1; if c; then A=2; else r; fi", "1"),
        ("A=1; if A=2; then A=3; else r; fi", "2"),
        ("A=1; if c; then A=2; elif A=3; then A=4; else r; fi", "3"),
        ("A=1; if c; then A=2; elif r; then A=3; fi", "1"),
        ("A=1; if c; then if d; then A=2; fi; else r; fi", "1"),
        ("A=1; case $1 in a) A=2;; *) r;; esac", "1"),
        ("A=1; case $1 in a) A=2;; b) A=3;; *) r;; esac", "1"),
        ("A=1; case $1 in a) A=2;; *) :;; esac; r", None),
        ("A=1; if c; then A=2; else A=3; fi; r", None),
    ],
)
def test_a_branch_has_the_values_from_before_the_other_branches(text: str, value: str | None) -> None:
    found = next(command for command in parse_script(f"export A; {text}", {}) if command.words[0] == "r")
    assert found.env["A"] == value
