// Package query names the actors of a node and sends queries to them.
package query
