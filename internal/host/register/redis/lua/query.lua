write()
return {floor, redis.call('HGETALL', lease)}
