-- A lock that ends by itself; its owner may renew it.
local owner, ttl = take(), take()
if redis.call('GET', PREFIX) == owner then
  redis.call('PEXPIRE', PREFIX, ttl)
  return '1'
end
return redis.call('SET', PREFIX, owner, 'NX', 'PX', ttl) and '1' or '0'
