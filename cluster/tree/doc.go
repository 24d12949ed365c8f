// Package tree is the register of a node's actors: who supervises whom, how each is, what it crashed on.
//
// It sees actors through the framework's own props and mailboxes, so that an actor knows nothing of it, and a message
// costs no more than a look at its type. It can be read whole at any moment, as messages, text, JSON and Graphviz. The trees of
// several nodes are drawn together, a root for each.
package tree
