// Package recording reads and writes recordings of a cluster: what there was at the beginning, and then each request,
// each routing decision and each event. A recording has no texts and no tokens: the blocks of prompts are salted
// hashes, which only show which prompts begin alike, and clients are hashes too.
//
// A recording is a file of JSON lines, compressed by gzip. Each line is an object with one key, which is the kind of
// the line. The first line is the header, the second one the snapshot. The others are in the order in which nodes
// sent them, which is not that of their times; Read sorts them. docs/reference/recordings.md describes the fields.
//
// Times are in seconds since the recording began, as measured by the clock of each node from the moment at which
// it joined the recording, so the clocks of nodes need not agree.
package recording
