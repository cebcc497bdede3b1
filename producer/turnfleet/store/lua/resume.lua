-- Decisions, all or none, each compare-and-set. Everything is looked at before anything is written.
local run, by, decision_id, roles = take(), take(), take_optional(), take_list()
local taken = {}
for place = 1, take_number() do
  taken[place] = { id = take(), kind = take(), decision = take(), digest = take_optional(), proof = take_optional() }
end
local facts = load(run)
if not facts then return { 'unknown' } end
local list, stored, fresh = people_of(run), {}, {}
for _, each in ipairs(list) do stored[each.id] = each end
for _, new in ipairs(taken) do
  local each = stored[new.id]
  if not each then
    if not allowed('resume', facts.state) then return { 'illegal', 'resume', facts.state } end
    return { 'no-interrupt', new.id }
  end
  if each.decision then
    local who = cjson.decode(each.who)
    local same = (decision_id and who.decision_id == decision_id) or (who.by == by and each.decision == new.decision)
    if not same then return { 'decided', new.id, who.by } end
  else
    if not allowed('resume', facts.state) then return { 'illegal', 'resume', facts.state } end
    if not may_decide(each, roles) then return { 'roles', new.id, each.head.roles } end
    if not FITTING[each.head.kind][new.kind] then return { 'unfit', new.id, each.head.kind, new.kind } end
    if new.digest and each.head.digest ~= cjson.null and new.digest ~= each.head.digest then
      return { 'outdated', new.id }
    end
    fresh[#fresh + 1] = new
  end
end
if #fresh == 0 then return { 'ok', facts.state, false } end
for _, new in ipairs(fresh) do decide(run, facts, stored[new.id], new.decision, by, decision_id, new.proof) end
local message = settle(run, facts, list)
return { 'ok', facts.state, message }
