// Package httpd serves HTTP for a node: clients at one address, and metrics scrapers at an optional
// second one. Between Open and Serve it answers only probes, so that a node that starts slowly is
// not considered dead.
package httpd
