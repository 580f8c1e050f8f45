/* SPDX-License-Identifier: MIT */
/* Servers that other servers told of; see node.h. */
#include "redis/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "model/text.h"
#include "os/guard.h"
#include "os/sys.h"

enum { NODES = 1024 };

/* (The password is in it for a moment: dlk_undumped.) */
struct node {
	struct dlk_endpoint ep; /* without a password (DESIGN L7) */
	const struct dlk_endpoint *like;
	_Atomic uint64_t away_ns;
	char history[DLK_RUN_ID_LEN + 1]; /* guarded by the mutex */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of who adds one,
							     too */
static _Atomic(struct node *) nodes[NODES];
static atomic_uint n_nodes;

static struct node *node_of(const struct dlk_endpoint *ep)
{
	for (unsigned i = 0; i < atomic_load(&n_nodes); i++)
		if (&nodes[i]->ep == ep)
			return nodes[i];
	return NULL;
}

static bool is_at(const struct dlk_endpoint *ep, const char *host, size_t len,
		  uint32_t port)
{
	return ep->port == port && strlen(ep->host) == len &&
	       strncasecmp(ep->host, host, len) == 0;
}

static const struct dlk_endpoint *find(const struct dlk_endpoint *like,
				       const char *host, size_t len,
				       uint32_t port)
{
	for (unsigned i = 0; i < atomic_load(&n_nodes); i++)
		if (nodes[i]->like == like &&
		    is_at(&nodes[i]->ep, host, len, port))
			return &nodes[i]->ep;
	return NULL;
}

void dlk_node_set_address(struct dlk_endpoint *ep, const char *host, size_t len,
			  uint32_t port)
{
	const bool v6 = memchr(host, ':', len);
	struct dlk_text t = dlk_text_in(ep->name, sizeof(ep->name));

	memcpy(ep->host, host, len);
	ep->host[len] = '\0';
	ep->port = port;
	dlk_text_strs(&t, v6 ? "[" : "", ep->host, v6 ? "]:" : ":", NULL);
	dlk_text_u64(&t, port, 1);
}

/* (mutex held) */
static const struct dlk_endpoint *add(const struct dlk_endpoint *like,
				      const char *host, size_t len,
				      uint32_t port)
{
	const unsigned n = atomic_load(&n_nodes);
	struct node *new;

	if (n == NODES)
		return NULL;
	new = dlk_undumped(sizeof(*new));
	if (!new)
		return NULL;
	new->ep = *like;
	explicit_bzero(new->ep.password, sizeof(new->ep.password));
	new->like = like;
	dlk_node_set_address(&new->ep, host, len, port);
	atomic_store(&nodes[n], new);
	atomic_store(&n_nodes, n + 1);
	return &new->ep;
}

const struct dlk_endpoint *dlk_node(const struct dlk_endpoint *like,
				    const char *host, size_t len, uint32_t port)
{
	const struct dlk_endpoint *ep;

	if (len == 0 || len >= sizeof(like->host))
		return NULL;
	ep = find(like, host, len, port);
	if (ep)
		return ep;
	DLK_GUARD(&mutex);
	ep = find(like, host, len, port) ?: add(like, host, len, port);
	return ep;
}

const struct dlk_endpoint *dlk_node_like(const struct dlk_endpoint *ep)
{
	const struct node *n = node_of(ep);

	return n ? n->like : ep;
}

const struct dlk_endpoint *dlk_node_at(const struct dlk_endpoint *like,
				       unsigned i)
{
	for (unsigned k = 0; k < atomic_load(&n_nodes); k++)
		if (nodes[k]->like == like && i-- == 0)
			return &nodes[k]->ep;
	return NULL;
}

void dlk_node_away(const struct dlk_endpoint *ep, uint64_t until_ns)
{
	struct node *n = node_of(ep);

	if (n)
		atomic_store(&n->away_ns, until_ns);
}

bool dlk_node_is_away(const struct dlk_endpoint *ep, uint64_t now_ns)
{
	const struct node *n = node_of(ep);

	return n && now_ns < atomic_load(&n->away_ns);
}

void dlk_node_note(const struct dlk_endpoint *ep, const char *history)
{
	struct node *n = node_of(ep);

	if (!n)
		return;
	DLK_GUARD(&mutex);
	strncpy(n->history, history, sizeof(n->history) - 1);
}

void dlk_node_recall(const struct dlk_endpoint *ep,
		     char history[DLK_RUN_ID_LEN + 1])
{
	struct node *n = node_of(ep);

	if (!n)
		return;
	DLK_GUARD(&mutex);
	memcpy(history, n->history, sizeof(n->history));
}

void dlk_nodes_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
}
