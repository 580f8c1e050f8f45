/* SPDX-License-Identifier: MIT */
/*
 * dlock run: start a program with its file locks shared across hosts.
 *
 *  1. The command MUST run with the shim and a configuration that is good, or
 *     not at all; what cannot be locked runs only with --allow-unlocked.
 *  2. Nothing is printed on stdout: it is the command's.
 *  3. dlock is gone once the command runs: same process, its exit status.
 *
 * Exit status: the command's; 64 usage, 69 Redis, 78 configuration, 126 and
 * 127 as a shell's.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common.h"
#include "tools/run.h"

static const char usage[] =
	"usage: dlock run [-c FILE] [--redis URL] [--path PREFIX]...\n"
	"                 [--allow-unlocked] [--] COMMAND [ARGUMENT]...\n"
	"       dlock --help | --version\n";

static const char help[] =
	"\n"
	"Runs COMMAND with its file locks under PREFIX kept in Redis.\n"
	"\n"
	"  -c, --config FILE     the configuration (else $DLOCK_CONFIG, else\n"
	"                        " DLK_CONFIG_DEFAULT ")\n"
	"      --redis URL       redis://HOST:PORT/DB or unix:///SOCKET?db=DB\n"
	"      --path PREFIX     a managed file or directory; may be repeated\n"
	"      --allow-unlocked  run a program that cannot be preloaded, with "
	"a warning\n"
	"\n"
	"Without any Redis configured a private one is started, for this "
	"machine only.\n"
	"Exit status: the command's; 64 usage, 69 Redis unavailable, 78 "
	"configuration,\n"
	"126 the command cannot be run (or not be locked), 127 it is not "
	"found.\n"
	"See dlock(1), dlock.conf(5).\n";

static int usage_error(void)
{
	fputs(usage, stderr);
	return DLK_EXIT_USAGE;
}

/* Options end at the first word that is none: the rest is the command's. */
static int parse(int argc, char **argv, struct run_options *opt,
		 const char **paths)
{
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "redis", required_argument, NULL, 'r' },
		{ "path", required_argument, NULL, 'p' },
		{ "allow-unlocked", no_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	int c;

	opt->paths = paths;
	while ((c = getopt_long(argc, argv, "+c:", longs, NULL)) != -1) {
		if (optarg && !*optarg)
			return tool_fail(DLK_EXIT_USAGE,
					 "an argument of -c, --redis or --path "
					 "is empty (is a variable unset?)");
		if (c == 'c')
			opt->config = optarg;
		else if (c == 'r')
			opt->redis = optarg;
		else if (c == 'p')
			paths[opt->n_paths++] = optarg;
		else if (c == 'u')
			opt->allow_unlocked = true;
		else
			return usage_error();
	}
	opt->argv = argv + optind;
	return optind < argc ? 0 : usage_error();
}

static int run_with(const struct run_options *opt, struct run_plan *plan)
{
	int rc = run_config(opt, plan);

	if (!rc)
		rc = run_check(opt, plan);
	if (!rc)
		rc = run_server(plan);
	if (!rc)
		rc = run_ping(plan);
	return rc ? rc : run_exec(opt, plan);
}

static int run(int argc, char **argv)
{
	const char **paths = calloc((size_t)argc, sizeof(*paths));
	static struct run_plan plan;
	struct run_options opt = { 0 };
	int rc;

	if (!paths)
		return tool_fail(DLK_EXIT_CANNOT, "out of memory");
	rc = parse(argc, argv, &opt, paths);
	if (!rc)
		rc = run_with(&opt, &plan);
	free(paths);
	return rc;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	tool_begin("dlock");
	if (!strcmp(verb, "run")) {
		argv[1] = argv[0];
		return run(argc - 1, argv + 1);
	}
	if (!strcmp(verb, "--version")) {
		puts("dlock " DLK_VERSION);
		return 0;
	}
	if (!strcmp(verb, "--help") || !strcmp(verb, "help")) {
		fputs(usage, stdout);
		fputs(help, stdout);
		return 0;
	}
	return usage_error();
}
