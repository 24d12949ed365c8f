package messages

// WireVersion is the version of the messages between nodes. It grows when a message changes in a way
// that nodes of the version before do not understand. Nodes of different wire versions do not form a
// cluster.
const WireVersion = 2
