// Package steps starts the parts of a node in order, and stops them in reverse order.
//
//   - All steps are in one list. Stop runs the list backwards.
//   - If a step fails, the steps before it are stopped. The failed step must have undone its own
//     work.
//   - Each step is stopped at most once.
package steps
