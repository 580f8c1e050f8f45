#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Who would refuse a range?  For F_GETLK: so not a claim, which is no lock yet.
--
-- KEYS    1 the lease  2 its ranges
-- ARGV    1 token of the asker, or "" if it has none
--         2 type, start, end (R or W, 19 digits each)
--         3 " HOST FILE " of the asker
--         4 since (20 digits): then its kernel was asked, and knew of nobody;
--           so whoever is older, of this host and file, is not in its way
--
-- {1, 0, '', ''}               nobody
-- {0, ttl left, token, range}  this one (as records_acquire.lua says it)
-- {2, 0, type, ''}             the key is no lease
--include records.inc
local LOOKS = 10000 -- at most
local id, want = id_of(ARGV[1]), range(ARGV[2], 1)

local function old(token, since)
	return string.sub(token, 40, 39 + #ARGV[3]) == ARGV[3]
	       and since < ARGV[4]
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

-- The first of a kind whose owner is in the way; nil if there are too many.
local function search(kind)
	local s, looked = 'S' .. kind, 0
	local from = '[' .. s
	repeat
		local got = redis.call('ZRANGEBYLEX', places, from, '[' .. s ..
				       want[2] .. ':', 'LIMIT', 0, 200)
		for _, m in ipairs(got) do
			local o = string.sub(m, 22, 40) >= want[1]
				  and alive(string.sub(m, 41))
			if o then
				return { string.sub(m, 3, 21),
					 string.sub(m, 22, 40), kind }, o
			end
		end
		looked, from = looked + #got, '(' .. (got[200] or '')
	until #got < 200 or looked >= LOOKS
	return looked < LOOKS and {} or nil
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
if other and not alive(other.id) then
	local found, by = search('W')
	if found and not by and want[3] == 'W' then
		found, by = search('R')
	end
	if found then
		hit, other = by and found, by
	end
end
if not hit then
	return { 1, 0, '', '' }
end
return { 0, other and other.expiry - now or 0, other and other.token or '',
	 hit[3] .. hit[1] .. hit[2] }
