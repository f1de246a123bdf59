// Package watch hands the events of the store to its watchers.
//
// A [Hub] follows the views that the node publishes; a [Stream] is the watches of
// one client connection. One goroutine tells the hub of new states, the hub's
// own goroutine finds the watchers of the new events, and for each stream one
// goroutine, the caller's, takes the responses:
//
//	hub := watch.NewHub(store.View(), watch.Config{})
//	hub.Publish(store.View())                  // after each applied batch
//
//	s := hub.NewStream(10 * time.Minute)
//	defer s.Close()
//	s.Create(ctx, &pb.WatchCreateRequest{Key: k})
//	for {
//		r, err := s.Next(ctx)                  // created, then events
//		…
//	}
//
// # What is promised
//
//   - A watcher gets each event of its range from its start revision on once, in
//     order of revision. The events of one revision are in one response.
//   - Start revision 0 is now: the first revision after the one in the header of the
//     created response. That may be lower than the revision of a write that was answered
//     before, if the owner answers before it publishes (see [Hub.Publish]). To get the
//     events after a write, begin at the revision after it. An older one is served from the
//     log, at once; a newer one is waited for.
//   - A watcher whose next event is compacted away, from the start or because it
//     fell so far behind, is canceled with the compact revision.
//   - A progress report with a revision is sent after every event up to it.
//
// # How it works
//
// Watchers are synced, behind, or gone. The synced ones stand in the hub's index:
// by hash those of a single key, in an interval tree those of a range. The hub
// stages, for each new event, its matches with their watchers, and then moves
// each watcher's batch to the queue of its stream. If the queue is full the
// watcher falls behind: it leaves the index, and a mark on the queue tells the
// stream where its events end. When the stream's reader comes upon the mark, it
// reads on in the log, in chunks, together with the stream's other late
// watchers. At the log's end it takes the hub's lock and puts the watchers back into
// the index, if the hub has not gone on meanwhile. A watch from an old revision begins
// its life behind. So a slow client costs its own goroutine's time and no memory
// but its queue, nobody ever polls, and the hub waits for no client.
//
// The order of locks is the hub's, then a stream's. Nobody holds either while
// reading the log for late watchers or while sending.
//
// An event's wire form is made by the first stream that sends it, and shared
// ([Event.Wire]).
//
// # Limits
//
// See [Config]: watchers in total and a stream, events and bytes queued on a stream and in
// total. One revision is never cut, so a response, and a reader's part of the log, can be
// as large as the largest transaction.
//
// # Left out
//
// Sending (package etcdapi does it, fragments too), the judgement that a client may watch (it
// tells a stream by [Stream.Refuse] and [Stream.Judge]), and history older than the store's.
package watch
