#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Who would refuse a range?  For F_GETLK: so not a claim, which is no lock yet.
--
-- KEYS    1 the lease  2 its ranges  3 the gate (gate.inc), or none
-- ARGV    1 token of who asks, or "" if it has none
--         2 type, start, end (R or W, 19 digits each)
--         3 " HOST FILE " of the request
--         4 since (20 digits): then its kernel was asked, and knew of nobody;
--           so whoever is older, of this host and file, is not in its way
--
-- {1, 0, '', ''}               nobody
-- {0, ttl left, token, range}  this one, which starts first (as
--                              records_acquire.lua says it)
-- {2, 0, type, ''}             the key is no lease
local gate = KEYS[3]
--include gate.inc
--include records.inc
local LOOKS = 10000 -- of each kind, at most
local id, want = id_of(ARGV[1]), range(ARGV[2], 1)

local function old(token, since)
	return here(token, ARGV[3]) and since < ARGV[4]
end

local known = { [id] = false }
local function alive(other)
	if known[other] == nil then
		local o = owner(other)
		known[other] = o and o.expiry > now and o.since ~= NEVER
			       and not old(o.token, o.since) and o
	end
	return known[other]
end

-- Of the members of a list those that reach want[1], the first one whose owner
-- is in the way.
local function pick(got, kind)
	for _, m in ipairs(got) do
		local o = string.sub(m, 22, 40) >= want[1]
			  and alive(string.sub(m, 41))
		if o then
			return { string.sub(m, 3, 21), string.sub(m, 22, 40),
				 kind }, o
		end
	end
end

-- The same of all that start between two bounds, the first one first; true if
-- there are too many.
local looked = 0
local function scan(kind, from, to)
	repeat
		local got = redis.call('ZRANGEBYLEX', ranges_key, from, to,
				       'LIMIT', 0, 200)
		local found, o = pick(got, kind)
		if found then
			return found, o
		end
		looked, from = looked + #got, '(' .. (got[200] or '')
	until #got < 200 or looked >= LOOKS
	return looked >= LOOKS
end

-- Writers that start before want[1] and reach it: one, with a claim of its own,
-- and those that linger.
local function writer_before(n)
	local from = '(SW' .. want[1]
	n = n - redis.call('ZLEXCOUNT', ranges_key, '[SW' .. want[1],
			   '[SW' .. want[1] .. ':')
	while n > 0 do
		local got = redis.call('ZREVRANGEBYLEX', ranges_key, from,
				       '[SW', 'LIMIT', 0, 16)
		for _, m in ipairs(got) do
			local found, o = pick({ m }, 'W')
			if found then
				return found, o
			end
			n = n - (string.sub(m, 22, 40) >= want[1] and 1 or 0)
		end
		n, from = got[16] and n or 0, '(' .. (got[16] or '')
	end
end

-- Those that start before want[1]; each reader has one at most.
local function before(kind)
	local s = 'S' .. kind
	local n = overlaps(kind, want[1], want[1])
	if n == 0 then
		return
	elseif kind == 'W' then
		return writer_before(n)
	end
	local found, o = scan(kind, '[' .. s, '(' .. s .. want[1])
	if found ~= true then
		return found, o
	end
	found, o, looked = nil, nil, 0
	for _, other in ipairs(redis.call('HKEYS', key)) do
		local r = other ~= 'dlock'
			  and mine(other, want[1], want[1], 1)[1]
		if r and r[3] == kind and alive(other)
		   and (not found or r[1] < found[1]) then
			found, o = r, alive(other)
		end
	end
	return found, o
end

local function first_of(kind)
	looked = 0
	local found, o = before(kind)
	if found then
		return found, o
	end
	local s = 'S' .. kind
	return scan(kind, '[' .. s .. want[1], '[' .. s .. want[2] .. ':')
end

local kind, held = kind_of(id)
if kind == 'odd' then
	return { 2, 0, held, '' }
elseif kind == 'none' or (kind == 'string' and held == ARGV[1]
			  and held ~= '') then
	return { 1, 0, '', '' }
elseif kind == 'string' then
	if string.sub(held, 1, 7) == 'dlock1 '
	   and old(held, string.sub(held, 40 + #ARGV[3], 59 + #ARGV[3])) then
		return { 1, 0, '', '' }
	end
	return { 0, redis.call('PTTL', key), held, 'W' .. ZERO .. LAST }
end
local had = id == '' and {} or mine(id, want[1], want[2])
local hit, other = obstacle(id, had, want)
-- The one that starts first: POSIX, fcntl(), F_GETLK.
if hit and other then
	local w, by_w = first_of('W')
	local r, by_r
	if want[3] == 'W' then
		r, by_r = first_of('R')
	end
	if by_w and not (by_r and r[1] < w[1]) then
		hit, other = w, by_w
	elseif by_r then
		hit, other = r, by_r
	elseif w ~= true and r ~= true then
		hit = nil
	end
end
if not hit then
	return { 1, 0, '', '' }
end
return { 0, time_left(hit, other), other and other.token or '',
	 hit[3] .. hit[1] .. hit[2] }
