/* SPDX-License-Identifier: BSD-2-Clause
 *
 * test_cli.c - option parsing, human-readable values and JSON of the commands' shared code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/cli.h"
#include "tools/json.h"

enum { OPTION_LEVEL = CLI_LONG_ONLY };

static const struct cli_option options[] = {
    {'n', "dry-run", NULL, "change nothing"},
    {'o', NULL, "OPT", "an option"},
    {OPTION_LEVEL, "level", "N", "a level"},
    {0},
};
static const struct cli_program program = {"prog",  "does things", "FILE [OPTION...]",
                                           options, NULL,          16};

/* Runs cli_next over ARGV with stderr captured in ERRORS; events as "n o=x level=3 | operands". */
static int parse(char **argv, char *events, char *errors, size_t size)
{
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    FILE *const saved = stderr;
    FILE *const memory = fmemopen(errors, size, "w");
    assert_non_null(memory);
    memset(errors, 0, size);
    stderr = memory;
    struct cli cli;
    int code = 0;
    events[0] = '\0';
    cli_begin(&cli, &program, argc, argv);
    for (int id; (id = cli_next(&cli)) != CLI_END;) {
        if (id == CLI_EXIT) {
            code = cli.exit_code;
            cli.count = 0;
            break;
        }
        sprintf(events + strlen(events), "%s%s%s ",
                id == OPTION_LEVEL ? "level" : (char[]){(char)id, 0}, cli.value != NULL ? "=" : "",
                cli.value != NULL ? cli.value : "");
    }
    for (int i = 0; i < cli.count; i++)
        sprintf(events + strlen(events), "|%s", cli.arguments[i]);
    fclose(memory);
    stderr = saved;
    return code;
}

static void test_options(void **state)
{
    static const struct {
        const char *argv[8];
        const char *events;
        int code;
        const char *error;
    } cases[] = {
        {{"prog", "a", "-n", "b"}, "n |a|b", 0, ""},
        {{"prog", "--dry-run", "-ox", "-o", "y", "z"}, "n o=x o=y |z", 0, ""},
        {{"prog", "--level=3", "--level", "4"}, "level=3 level=4 ", 0, ""},
        {{"prog", "--lev=3", "-no", "q"}, "level=3 n o=q ", 0, ""},
        {{"prog", "--", "-n"}, "|-n", 0, ""},
        {{"prog", "-x"}, "", 16, "prog: option '-x' is unknown or ambiguous\n"},
        {{"prog", "--wrong"}, "", 16, "prog: option '--wrong' is unknown or ambiguous\n"},
        {{"prog", "--level"}, "", 16, "prog: option '--level' needs an argument\n"},
        {{"prog", "-o"}, "", 16, "prog: option '-o' needs an argument\n"},
        {{"prog", "--dry-run=yes"}, "", 16, "prog: option '--dry-run=yes' takes no argument\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char events[256], errors[512];
        char *argv[9] = {0};
        for (size_t j = 0; cases[i].argv[j] != NULL; j++)
            argv[j] = strdup(cases[i].argv[j]);
        assert_int_equal(parse(argv, events, errors, sizeof errors), cases[i].code);
        assert_string_equal(events, cases[i].events);
        assert_memory_equal(errors, cases[i].error, strlen(cases[i].error));
        if (cases[i].code != 0)
            assert_non_null(strstr(errors, "Try 'prog --help'."));
        for (size_t j = 0; j < 8; j++)
            free(argv[j]);
    }
}

static void test_numbers(void **state)
{
    uint64_t value = 7;
    assert_true(cli_parse_u64("18446744073709551615", 0, UINT64_MAX, &value));
    assert_true(value == UINT64_MAX);
    assert_true(cli_parse_u64("0", 0, 9, &value));
    assert_int_equal(value, 0);
    static const char *const bad[] = {"", " 1", "+1", "-1", "1x", "10", "18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        value = 7;
        assert_false(cli_parse_u64(bad[i], 0, 9, &value));
        assert_int_equal(value, 7);
    }
}

static void test_values(void **state)
{
    char text[CLI_TEXT];
    assert_string_equal(cli_bytes(0, text), "0 B");
    assert_string_equal(cli_bytes(1023, text), "1023 B");
    assert_string_equal(cli_bytes(1024, text), "1.00 KiB");
    assert_string_equal(cli_bytes(10 * 1024, text), "10.0 KiB");
    assert_string_equal(cli_bytes(UINT64_C(1023) << 20, text), "1.00 GiB");
    assert_string_equal(cli_bytes(UINT64_MAX, text), "16.0 EiB");
    assert_string_equal(cli_count(0, text), "0");
    assert_string_equal(cli_count(1234567, text), "1,234,567");
    assert_string_equal(cli_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
    assert_string_equal(cli_seconds(0.00085, text), "850 us");
    assert_string_equal(cli_seconds(3.2, text), "3.2 s");
    assert_string_equal(cli_seconds(245, text), "4m05s");
    assert_string_equal(cli_seconds(7380, text), "2h03m");
    assert_true(cli_percent(1, 0) == 0 && cli_percent(1, 4) == 25);
    assert_true(cli_ratio(8, 0) == 1 && cli_ratio(8, 2) == 4);
    enum cli_progress_mode mode = CLI_PROGRESS_AUTO;
    assert_true(cli_progress_parse("never", &mode));
    assert_int_equal(mode, CLI_PROGRESS_NEVER);
    assert_false(cli_progress_parse("sometimes", &mode));
}

/* A progress line drawn to a file: one line a label at its end, none when off. */
static void test_progress(void **state)
{
    char errors[512] = "";
    FILE *const saved = stderr;
    FILE *const memory = fmemopen(errors, sizeof errors, "w");
    assert_non_null(memory);
    stderr = memory;
    struct cli_progress progress;
    cli_progress_begin(&progress, CLI_PROGRESS_NEVER);
    cli_progress_update(&progress, "quiet", 1, 1, NULL);
    cli_progress_begin(&progress, CLI_PROGRESS_ALWAYS);
    progress.terminal = false;
    cli_progress_update(&progress, "names", 10, 10, "fine");
    cli_progress_update(&progress, "blocks", 5, 5, NULL);
    fclose(memory);
    stderr = saved;
    assert_string_equal(errors, "names            [########################] 100.0%  fine\n"
                                "blocks           [########################] 100.0%\n");
}

/* What comes from elsewhere reaches no terminal as a command, and stays one line. */
static void test_control_characters(void **state)
{
    char text[256] = "";
    FILE *memory = fmemopen(text, sizeof text, "w");
    assert_non_null(memory);
    cli_put(memory, "a\x1b[2J\nb\x7f \xc2\x9b\xc2\x80\xc2\x9f\xc2\xa0 \xc3\xa9\xff\xc2");
    fclose(memory);
    assert_string_equal(text, "a?[2J?b? ???\xc2\xa0 \xc3\xa9\xff\xc2");

    memory = fmemopen(text, sizeof text, "w");
    assert_non_null(memory);
    FILE *const saved = stderr;
    stderr = memory;
    cli_error("prog", "sub\nject", "%s\r%d", "rea\x1bson", 7);
    stderr = saved;
    fclose(memory);
    assert_string_equal(text, "prog: sub?ject: rea?son?7\n");
}

static void test_json(void **state)
{
    char text[1024] = "";
    FILE *const memory = fmemopen(text, sizeof text, "w");
    assert_non_null(memory);
    struct json json;
    json_begin(&json, memory);
    json_object(&json, NULL);
    json_string(&json, "quote", "a\"b\\c\n\x7f");
    json_string(&json, "utf8", "\xc2\x9b\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    json_string(&json, "bytes", "\xff\xc3(\xed\xa0\x80\xc0\xaf\xe2\x82");
    json_string(&json, "none", NULL);
    json_array(&json, "list");
    json_u64(&json, NULL, UINT64_MAX);
    json_double(&json, NULL, 1.5);
    json_double(&json, NULL, 1.0 / 0.0);
    json_bool(&json, NULL, false);
    json_end(&json);
    json_array(&json, "empty");
    json_end(&json);
    json_end(&json);
    fclose(memory);
    assert_string_equal(text,
                        "{\n  \"quote\": \"a\\\"b\\\\c\\u000a\\u007f\",\n"
                        "  \"utf8\": \"\\u009b\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\",\n"
                        "  \"bytes\": \"\\udcff\\udcc3(\\udced\\udca0\\udc80\\udcc0\\udcaf\\udce2"
                        "\\udc82\",\n"
                        "  \"none\": null,\n  \"list\": [\n    18446744073709551615,\n    1.5,\n"
                        "    null,\n    false\n  ],\n  \"empty\": []\n}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_values),  cmocka_unit_test(test_progress),
        cmocka_unit_test(test_json),    cmocka_unit_test(test_control_characters),
    };
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
