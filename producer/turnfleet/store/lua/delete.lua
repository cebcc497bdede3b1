-- A run that ended is forgotten now.
local run = take()
local facts = load(run)
if not facts then return { 'ok', '0' } end
if not TERMINAL[facts.state] then return { 'illegal', 'delete', facts.state } end
redis.call('ZREM', GONE, gone_member(run, facts))
redis.call('ZREM', PREFIX .. 's:' .. facts.state, run)
if facts.tenant then redis.call('ZREM', PREFIX .. 't:' .. facts.tenant, run) end
for _, kind in ipairs({ 'r', 'j', 'e', 'i' }) do redis.call('DEL', key(kind, run)) end
return { 'ok', '1' }
