// Package record records a running cluster, for "troupe record": it asks for a snapshot, and then each node for what
// its gateway and its router have recorded, until the recording ends.
package record
