#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Who stands in the way of a range: all of them, as far as they are few.  For
-- the search for deadlocks; reads only.  Not a claim: its owner was granted
-- what it waited for, or has left.
--
-- KEYS    1 the lease  2 its ranges
-- ARGV    1 the 32 digits of the waiter's own token there, or ""
--         2 type, start, end (R or W, 19 digits each)
--
-- {digits, ...}  of the owners' tokens, at most 16; none for a foreign key
--include records.inc
local id, want = ARGV[1], range(ARGV[2], 1)
local found, seen, looked = {}, { [id] = true }, 0

local function note(other)
	if seen[other] or #found == 16 then
		return
	end
	seen[other] = true
	local o = owner(other)
	if o and o.expiry > now and o.since ~= NEVER then
		found[#found + 1] = other
	end
end

-- All that begin at the end of `want` or before; at most 1000 are looked at.
local function look(kind)
	local from, s = '[S' .. kind .. want[2] .. ':', 'S' .. kind
	repeat
		local got = redis.call('ZREVRANGEBYLEX', ranges_key, from,
				       '[' .. s, 'LIMIT', 0, 100)
		for _, m in ipairs(got) do
			if string.sub(m, 22, 40) >= want[1] then
				note(string.sub(m, 41))
			end
		end
		looked = looked + #got
		from = '(' .. (got[100] or '')
	until #got < 100 or looked >= 1000
end

-- Where many ranges hide the few that count, not least the waiter's own: owner
-- by owner, at most 1000 of them.
local function look_at_owners()
	for i, other in ipairs(redis.call('HKEYS', key)) do
		if i > 1000 or #found == 16 then
			return
		end
		local has = seen[other] and {}
			    or mine(other, want[1], want[2], 100)
		for _, r in ipairs(has) do
			if r[3] == 'W' or want[3] == 'W' then
				note(other)
			end
		end
	end
end

local kind, held = kind_of(id)
if kind == 'string' and string.sub(held, 1, 7) == 'dlock1 '
   and id_of(held) ~= id then
	return { id_of(held) }
elseif kind ~= 'hash' then
	return {}
end
look('W')
if want[3] == 'W' then
	look('R')
end
if looked >= 1000 then
	look_at_owners()
end
return found
