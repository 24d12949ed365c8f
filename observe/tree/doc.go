// Package tree is the registry of a node's actors: their supervisors, their states and their last
// failures.
//
// It observes actors through protoactor's props and mailboxes, so actors need no code for it, and a
// message costs only a type switch. A snapshot can be taken at any time and rendered as messages,
// text, JSON or Graphviz. The trees of several nodes are rendered together, with one root each.
package tree
