"""The rating worker: takes finished matches from Redis, rates both players, publishes the changes.

The layers, from the top; each imports only those below it, and import-linter checks it:

    settings                what `arq match_ratings_worker.settings.WorkerSettings` loads
    cli                     the command line: one module a command in cli/commands
    jobs                    what arq runs: messages by a job, dead letters, voids, previews, cron jobs
    dead_letters            lists, explains, edits, replays, exports what could not be rated
    voids                   finds matches to void and asks the workers to do it
    calculators             what a match or a list of games would change
    evaluation              how well a system predicts; the same matches by other settings
    runtime                 one worker process: its context, arq worker, metrics, log, child processes
    audit                   replays the ledger and compares it with what is stored
    queries                 read-only views: status, leaderboard, players
    ledger                  the events of a ladder, in Redis and in the SQLite archive
    migration               imports another rater's players and compares its changes
    pipeline                the way of a match, below
    ladder_settings         the settings that a ladder has adopted, their history, what a change means
    environment_variables   RATINGS_* variables
    ladders_file            the TOML file with the ladders
    storage                 Redis and nothing else: connections, keys, Lua scripts, stored formats
    rating                  the rating systems: pure, no I/O, no clock
    safe_text, time_units   sentences about values; milliseconds
    backoff                 pauses between tries
    text_lines              lines of a file, in batches
    match_ratings           messages and stream names (the package in contracts/)

manual/ holds the chapters of `match-ratings manual`.

The way of one match:

    XADD by a match server, or match_ratings.publish
      -> pipeline/consume_and_take_over waits for messages and calls the processor, batch by batch
      -> storage/lua/claim_messages   takes messages from the group, queues them on their players' lines
      -> pipeline/validate_claimed    validates it: a message, or a problem, which makes a dead letter
      -> pipeline/process_batch       reads, decides and commits what waits, in chunks
      -> storage/lua/read_batch       states, windows and receipts of their players
      -> pipeline/decide_batch        pure: what becomes of each message, in stream order
      -> pipeline/rate_match          or pay_prizes, void_match: calls the rating system, builds the event
      -> storage/lua/commit_batch     checks lines and receipts again, then writes everything at once
      -> rating-updated               the event, read by lobbies and by match_ratings.rating_updates
"""
