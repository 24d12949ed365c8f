// Package query names the actors of a node and asks them.
package query
