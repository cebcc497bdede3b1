-- A failed run goes on from its journal: it lives without TTL again, and its log says so.
local run = take()
local facts = load(run)
if not facts then return { 'unknown' } end
if not allowed('retry', facts.state) then return { 'illegal', 'retry', facts.state } end
redis.call('ZREM', GONE, gone_member(run, facts))
for _, kind in ipairs({ 'r', 'j', 'e', 'i' }) do redis.call('PERSIST', key(kind, run)) end
redis.call('HDEL', key('r', run), 'error', 'ended')
set(run, 'losses', '0')
emit_own(run, facts, 'resumed', '"attempt":' .. int(facts.attempt + 1))
return { 'ok', requeue(run, facts, 'retry', 'failed') }
