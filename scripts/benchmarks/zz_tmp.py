from benchmarks.arq_app import *
from benchmarks.arq_app import empty
class T:
 functions=EmptyTuned.functions
 redis_settings=EmptyTuned.redis_settings
 poll_delay=0
 max_jobs=50
 queue_read_limit=None
 keep_result=0
 log_results=False
Q={'version':1}
