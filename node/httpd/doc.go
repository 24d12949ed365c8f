// Package httpd serves HTTP for a node: clients at one address, and scrapers of metrics at an
// optional second one. From Open to Serve it answers only probes, so that a slow start is not taken
// for a dead node.
package httpd
