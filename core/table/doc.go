// Package table holds the transition tables of the machines in core, finds the row that fits an
// event, and remembers which rows have ever applied.
//
// A machine declares its rows in a Table, calls Find for each event, and runs the action of the row
// that it gets. A Table is immutable but for what it remembers, and is safe for concurrent use.
//
// # Package-level state
//
// The list of all tables, and per row the states in which it has applied, are the only state of
// core that does not belong to a machine. Machines come and go, and one process runs thousands of
// them, on several nodes in a simulation; whether a row is ever reached is a question about all of
// them. Nothing in core reads this state, so no decision depends on it. A row that has applied
// before costs one atomic load, so machines on different cores do not contend.
package table
