package main

import "time"

// completionLimit is how long a shell waits for names from an engine.
const completionLimit = time.Second
