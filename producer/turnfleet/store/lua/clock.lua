-- What time it is to the server that has the key: seconds, and microseconds of the running one.
return { clock[1], clock[2] }
