-- Batches of events above an index, the first batch still in the log, the next index and the state: one moment's view.
local run, after, batches = take(), take_number(), take()
local record = redis.call('HMGET', key('r', run), 'state', 'next')
if not record[1] then return { 'unknown' } end
local function batch_texts(from, count)
  local texts = {}
  for place, entry in ipairs(redis.call('XRANGE', key('e', run), from, '+', 'COUNT', count)) do
    texts[place] = entry[2][2]
  end
  return texts
end
-- An entry's id is 0-(its last index + 1): the first one that reaches beyond `after` has at least after + 2.
return { 'ok', record[1], record[2], batch_texts('-', 1), batch_texts('0-' .. int(after + 2), batches) }
