/* SPDX-License-Identifier: MIT */
/*
 * The configuration of one `dlock run`: a file of the user's, or one that is
 * written for --redis and --path.
 *
 *  1. A generated file's name is a hash of its text: two runs with the same
 *     options share it, two with different ones never meet.
 *  2. Whatever a path or a URL contains, it MUST reach the parser as it is:
 *     in libconfuse's single quotes only '\' and the quote are special, and
 *     ${VAR} is not expanded.
 *
 *  3. Which host this is, and where its shadows are, MUST be as in the
 *     configuration that would hold without the options: by host_id, machines
 *     that one snapshot was resumed on are told apart (DESIGN L3).
 *
 * Which Redis: --redis; else that of that configuration; else a private one,
 * which is for this machine only.
 */
#include "tools/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/common.h"

enum { URL_MAX = 8192 };

static void quote(FILE *f, const char *s)
{
	fputc('\'', f);
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\')
			fputc('\\', f);
		fputc(*s, f);
	}
	fputc('\'', f);
}

static void print_option(FILE *f, const char *name, const char *value)
{
	fprintf(f, "\t%s = ", name);
	quote(f, value);
	fputc('\n', f);
}

/* A part of a URL: all but the unreserved bytes (RFC 3986) as %XX. */
static void url_part(FILE *f, const char *s, const char *keep)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._~";

	for (; *s; s++) {
		if (strchr(plain, *s) || strchr(keep, *s))
			fputc(*s, f);
		else
			fprintf(f, "%%%02X", (unsigned char)*s);
	}
}

static void url_credentials(FILE *f, const struct dlk_endpoint *ep)
{
	if (!*ep->password)
		return;
	url_part(f, ep->username, "");
	fputc(':', f);
	url_part(f, ep->password, "");
	fputc('@', f);
}

static void print_url(FILE *f, const struct dlk_endpoint *ep)
{
	if (ep->scheme == DLK_UNIX) {
		fputs("unix://", f);
		url_credentials(f, ep);
		url_part(f, ep->path, "/");
		fprintf(f, "?db=%d", (int)ep->db);
		return;
	}
	fputs(ep->scheme == DLK_TLS ? "rediss://" : "redis://", f);
	url_credentials(f, ep);
	fprintf(f, strchr(ep->host, ':') ? "[%s]" : "%s", ep->host);
	fprintf(f, ":%u/%d", ep->port, (int)ep->db);
}

/* The URL of an endpoint; -EINVAL if the parser does not read it back so. */
static int make_url(const struct dlk_endpoint *ep, char url[URL_MAX])
{
	struct dlk_endpoint back = { 0 };
	struct dlk_error err;
	FILE *f = fmemopen(url, URL_MAX, "w");

	if (!f)
		return -errno;
	print_url(f, ep);
	if (fclose(f) || dlk_url_parse(url, &back, &err) ||
	    !tool_same_server(&back, ep) ||
	    strcmp(back.password, ep->password) ||
	    (*ep->password && strcmp(back.username, ep->username)))
		return -EINVAL;
	return 0;
}

/* Where the password is the helper's, it is in no URL. */
static void print_login(FILE *f, const struct dlk_endpoint *ep)
{
	if (!*ep->password_file)
		return;
	if (*ep->username)
		print_option(f, "username", ep->username);
	print_option(f, "password_file", ep->password_file);
	fputs("\tcredentials = \"helper\"\n", f);
}

static void print_tls(FILE *f, const struct dlk_tls_options *tls)
{
	if (*tls->ca_file)
		print_option(f, "ca_file", tls->ca_file);
	if (*tls->server_name)
		print_option(f, "server_name", tls->server_name);
	if (*tls->cert_file)
		print_option(f, "cert_file", tls->cert_file);
	if (*tls->key_file)
		print_option(f, "key_file", tls->key_file);
}

/* A delay of 0 is meant, any other one outlasts the leases. */
static void print_times(FILE *f, const struct dlk_endpoint *ep, uint32_t ttl)
{
	const uint64_t delay = ep->restart_delay_ms;

	fprintf(f,
		"\trestart_delay = \"%" PRIu64 "ms\"\n"
		"\tconnect_timeout = \"%" PRIu32 "ms\"\n",
		delay && delay < ttl ? ttl : delay, ep->connect_timeout_ms);
}

/* Is it one server, by a URL of ours?  0, or the exit code with which it ends. */
static int one_server(const struct dlk_config *config, char url[URL_MAX])
{
	const struct dlk_redis *redis = config->redis;

	if (config->n_redis != 1)
		return tool_fail(DLK_EXIT_USAGE,
				 "--path: %s has %u redis sections, not one: "
				 "say --redis, or use -c",
				 config->file, config->n_redis);
	if (redis->mode != DLK_SINGLE)
		return tool_fail(DLK_EXIT_USAGE,
				 "--path: %s: redis \"%s\" is of several "
				 "servers (mode), which --path does not take "
				 "along: use -c with a file that has the path",
				 config->file, redis->name);
	if (redis->fault)
		return tool_fail(DLK_EXIT_CONFIG, "%s", redis->fault);
	if (make_url(redis->endpoints, url))
		return tool_fail(DLK_EXIT_USAGE,
				 "--path: %s: the url of redis \"%s\" cannot "
				 "be written anew: use -c with a file that has "
				 "the path",
				 config->file, redis->name);
	return 0;
}

/* A redis section like that of the host's file. */
static int redis_of_host(FILE *f, const struct dlk_config *host,
			 uint32_t *ttl_ms)
{
	const struct dlk_endpoint *ep;
	char url[URL_MAX] = "";
	int rc = one_server(host, url);

	if (rc)
		return rc;
	ep = host->redis->endpoints;
	*ttl_ms = tool_ttl_beside(ep);
	print_option(f, "url", url);
	print_times(f, ep, *ttl_ms);
	fprintf(f, "\tallow_eviction = %s\n\treplicas = %" PRIu32 "\n",
		ep->allow_eviction ? "true" : "false", ep->replicas);
	print_login(f, ep);
	print_tls(f, &ep->tls);
	return 0;
}

static int redis_of_option(FILE *f, const char *url)
{
	struct dlk_endpoint ep = { 0 };
	struct dlk_error err = { "" };

	if (dlk_url_parse(url, &ep, &err))
		return tool_fail(DLK_EXIT_USAGE, "--redis: %s", err.text);
	print_option(f, "url", url);
	return 0;
}

/* Its memory is as new as it is: nobody can hold a lock of before (L5). */
static int redis_private(FILE *f, const char *dir, struct run_plan *plan)
{
	struct dlk_endpoint *ep = &plan->server;
	char url[URL_MAX] = "";

	ep->scheme = DLK_UNIX;
	ep->connect_timeout_ms = 2000;
	if (snprintf(ep->path, sizeof(ep->path), "%s/redis.sock", dir) >=
		    (int)sizeof(ep->path) ||
	    make_url(ep, url))
		return tool_fail(DLK_EXIT_CONFIG,
				 "%s: no place for a socket (too long)", dir);
	snprintf(ep->name, sizeof(ep->name), "%s", ep->path);
	plan->own_server = true;
	print_option(f, "url", url);
	fputs("\trestart_delay = \"0s\"\n", f);
	return 0;
}

static void print_host(FILE *f, const struct dlk_config *host)
{
	if (*host->host_id) {
		fputs("host_id = ", f);
		quote(f, host->host_id);
		fputc('\n', f);
	}
	fputs("state_dir = ", f);
	quote(f, host->state_dir);
	fputc('\n', f);
}

static int print_redis(FILE *f, const struct run_options *opt,
		       const struct dlk_config *host, const char *dir,
		       struct run_plan *plan)
{
	int rc;

	fputs("redis \"main\" {\n", f);
	if (opt->redis)
		rc = redis_of_option(f, opt->redis);
	else if (host)
		rc = redis_of_host(f, host, &plan->ttl_ms);
	else
		rc = redis_private(f, dir, plan);
	fputs("}\n", f);
	return rc;
}

/*
 * A prefix: absolute, and with a slash at its end if it is a directory.  One
 * that is absolute stays as it is given, wherever links lead: it makes the
 * same keys on a host that has other links.
 */
static int print_path(FILE *f, const char *path, uint32_t ttl_ms)
{
	char prefix[DLK_PATH_MAX + 1];
	size_t len = strlen(path), n;
	struct stat st;
	int err = tool_resolve(path, prefix);

	if (err)
		return tool_fail(DLK_EXIT_USAGE, "--path: %s: %s", path,
				 strerror(-err));
	/* "/a/../b" has no spelling of its own: what it leads to is written. */
	if (*path == '/' && !dlk_path_has_dots(path))
		strcpy(prefix, path);
	n = strlen(prefix);
	if (prefix[n - 1] != '/' &&
	    (path[len - 1] == '/' ||
	     (!stat(prefix, &st) && S_ISDIR(st.st_mode))))
		strcpy(prefix + n, "/");
	fputs("path ", f);
	quote(f, prefix);
	fputs(" {\n\tredis = \"main\"\n", f);
	if (ttl_ms)
		fprintf(f, "\tttl = \"%" PRIu32 "ms\"\n", ttl_ms);
	fputs("}\n", f);
	return 0;
}

static int print_paths(FILE *f, const struct run_options *opt, uint32_t ttl_ms)
{
	char cwd[DLK_PATH_MAX];

	for (unsigned i = 0; i < opt->n_paths; i++) {
		int rc = print_path(f, opt->paths[i], ttl_ms);

		if (rc)
			return rc;
	}
	if (opt->n_paths)
		return 0;
	if (tool_resolve(".", cwd))
		return tool_fail(DLK_EXIT_USAGE, "the current directory has "
						 "no name; say --path");
	tool_say("no --path: files under %s are managed", cwd);
	return print_path(f, ".", ttl_ms);
}

/* FNV-1a, 128 bits: it tells texts apart, it need not resist anybody. */
static void name_of(const char *text, size_t len, char name[64])
{
	const unsigned __int128 prime = (unsigned __int128)1 << 88 | 0x13b;
	unsigned __int128 h = (unsigned __int128)0x6c62272e07bb0142 << 64 |
			      0x62b821756295c58d;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * prime;
	snprintf(name, 64, "%016" PRIx64 "%016" PRIx64 ".conf",
		 (uint64_t)(h >> 64), (uint64_t)h);
}

static int store(const char *dir, const char *text, size_t len, char *file)
{
	char name[64];

	name_of(text, len, name);
	if (snprintf(file, DLK_PATH_MAX, "%s/%s", dir, name) >= DLK_PATH_MAX)
		return tool_fail(DLK_EXIT_CONFIG, "%s: %s", dir,
				 strerror(ENAMETOOLONG));
	return run_dir_write(dir, name, text, len);
}

static int generate(const struct run_options *opt,
		    const struct dlk_config *host, struct run_plan *plan)
{
	char dir[DLK_PATH_MAX], *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int rc = f ? run_dir(dir) : DLK_EXIT_CONFIG;

	if (!f)
		return tool_fail(rc, "%s", strerror(errno));
	fputs("# Written by dlock run.\n", f);
	if (host)
		print_host(f, host);
	if (!rc)
		rc = print_redis(f, opt, host, dir, plan);
	if (!rc)
		rc = print_paths(f, opt, plan->ttl_ms);
	if (fclose(f) && !rc)
		rc = tool_fail(DLK_EXIT_CONFIG, "%s", strerror(errno));
	if (!rc)
		rc = store(dir, text, len, plan->config);
	free(text);
	return rc;
}

/* Where a Redis is named, the run goes on without a file that cannot be used. */
static int load_host(const struct run_options *opt, const char *file,
		     struct dlk_config **host)
{
	if (!opt->redis && file)
		return tool_config_load(file, host);
	*host = opt->redis ? tool_config_host() : NULL;
	return 0;
}

static int by_options(const struct run_options *opt, const char *file,
		      struct run_plan *plan)
{
	struct dlk_config *host = NULL;
	int rc = load_host(opt, file, &host);

	if (!rc)
		rc = generate(opt, host, plan);
	if (!rc)
		rc = tool_config_load(plan->config, &plan->loaded);
	if (!rc && host)
		rc = run_beside(host, plan->loaded);
	dlk_config_free(host);
	return rc;
}

static int by_file(const char *file, struct run_plan *plan)
{
	if (!realpath(file, plan->config))
		return tool_fail(DLK_EXIT_CONFIG, "%s: %s", file,
				 strerror(errno));
	return tool_config_load(plan->config, &plan->loaded);
}

int run_config(const struct run_options *opt, struct run_plan *plan)
{
	bool own = opt->redis || opt->n_paths;
	const char *file = tool_config_file(opt->config);
	int rc;

	if (own && opt->config)
		return tool_fail(DLK_EXIT_USAGE,
				 "-c goes with neither --redis "
				 "nor --path: the file says both");
	rc = own || !file ? by_options(opt, file, plan) : by_file(file, plan);
	if (!rc)
		tool_config_idle(plan->loaded);
	return rc;
}
