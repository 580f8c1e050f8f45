// SPDX-License-Identifier: MIT
//
// node-redlock over ioredis, with their defaults.
//
//	redlock.mjs cycle PORT[,PORT...] N
//		"redlock NS" and "redlock_ping NS", medians: a lock at all of
//		these, a PING at the first one
//	redlock.mjs contend PORT WAITERS HOLD_US OUT
//		as bench_contend.c says; the waiters share a process, and have
//		a connection each.  A Redlock gives up after 10 retries, then
//		the waiter asks again.
import Redis from "ioredis";
import redlock from "redlock";
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";

const Redlock = redlock.default ?? redlock;
const [verb, ports, ...rest] = process.argv.slice(2);
const now = () => process.hrtime.bigint();
const connected = (port) => new Redis(Number(port), "127.0.0.1");

function median(values) {
	values.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
	return values[Math.floor(values.length / 2)];
}

async function timed(list, action) {
	const from = now();
	await action();
	list.push(now() - from);
}

async function cycle(n) {
	const masters = ports.split(",").map(connected);
	const locks = new Redlock(masters);
	const cycles = [], pings = [];

	for (let i = 0; i < n; i++) {
		await timed(pings, () => masters[0].ping());
		await timed(cycles, async () =>
			(await locks.acquire(["bench"], 10000)).release());
	}
	console.log(`redlock ${median(cycles)}`);
	console.log(`redlock_ping ${median(pings)}`);
	masters.forEach((redis) => redis.disconnect());
}

async function waiter(number, redis, begin, end, hold) {
	const locks = new Redlock([redis]);
	const lines = [];

	await sleep(Number(begin - now()) / 1e6);
	while (now() < end) {
		const asked = now();
		let lock;

		while (!lock)
			lock = await locks.acquire(["bench"], 10000)
				.catch(() => undefined);
		const locked = now();
		if (locked < end)
			await sleep(hold / 1000);
		const unlock = now();
		await lock.release();
		lines.push(`${number} ${asked} ${locked} ${unlock}\n`);
	}
	redis.disconnect();
	return lines.join("");
}

async function contend(waiters, hold, out) {
	const input = createInterface({ input: process.stdin });
	const clients = Array.from({ length: waiters }, () =>
		connected(ports));

	await Promise.all(clients.map((redis) => redis.ping()));
	console.log("ready");
	const line = (await input[Symbol.asyncIterator]().next()).value;
	const [begin, end] = line.trim().split(" ").map(BigInt);
	const all = await Promise.all(clients.map((redis, i) =>
		waiter(i, redis, begin, end, hold)));
	appendFileSync(out, all.join(""));
	console.log("done");
	input.close();
}

if (verb === "cycle")
	await cycle(Number(rest[0]));
else
	await contend(Number(rest[0]), Number(rest[1]), rest[2]);
process.exit(0);
