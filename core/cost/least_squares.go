package cost

import (
	"math"
	"math/bits"
)

// singular is the share of its column's length that a pivot has at least. Below it, the column counts
// as a combination of the others.
const singular = 1e-9

// leastSquares returns the x without negative elements that minimizes the sum of squared relative
// errors of the targets, which are positive. It tries each subset of the columns; see the package
// comment. A term that makes the fit no better is 0.
func leastSquares(rows [][]float64, targets []float64) []float64 {
	n := len(rows[0])
	products, right, lengths := normalEquations(rows, targets, n)
	best, x := 0.0, make([]float64, n)
	for used := uint(1); used < 1<<n; used++ {
		solved, ok := solve(products, right, used)
		if !ok {
			continue
		}
		gain := 0.0 // by which the terms reduce the sum of squares
		for i, v := range solved {
			gain += float64(v * right[i])
		}
		few := bits.OnesCount(used) < count(x)
		if gain > best+singular || few && gain > best-singular {
			best, x = gain, solved
		}
	}
	for i := range x {
		if lengths[i] > 0 {
			x[i] /= lengths[i]
		}
	}
	return x
}

func count(x []float64) (n int) {
	for _, v := range x {
		if v > 0 {
			n++
		}
	}
	return n
}

// normalEquations returns the equations for columns that are divided by their lengths, and the
// lengths. Each row is divided by its target.
func normalEquations(rows [][]float64, targets []float64, n int) (products [][]float64, right, lengths []float64) {
	products, right, lengths = make([][]float64, n), make([]float64, n), make([]float64, n)
	for i, row := range rows {
		for j, v := range row {
			lengths[j] += float64(v / targets[i] * v / targets[i])
		}
	}
	for j := range lengths {
		lengths[j] = math.Sqrt(lengths[j])
		products[j] = make([]float64, n)
	}
	scaled := func(i, j int) float64 {
		if lengths[j] == 0 {
			return 0
		}
		return rows[i][j] / targets[i] / lengths[j]
	}
	for i := range rows {
		for j := range n {
			right[j] += scaled(i, j)
			for k := range n {
				products[j][k] += float64(scaled(i, j) * scaled(i, k))
			}
		}
	}
	return products, right, lengths
}

// solve solves the equations of the columns in used, by Gaussian elimination with pivots. It fails if
// they are singular, or if an element of the solution is negative.
func solve(products [][]float64, right []float64, used uint) (x []float64, ok bool) {
	var columns []int
	for j := range right {
		if used&(1<<j) != 0 {
			columns = append(columns, j)
		}
	}
	n := len(columns)
	a := make([][]float64, n) // with the right side as the last column
	for i, row := range columns {
		a[i] = make([]float64, n+1)
		for j, column := range columns {
			a[i][j] = products[row][column]
		}
		a[i][n] = right[row]
	}
	for i := range n {
		pivot := i
		for j := i + 1; j < n; j++ {
			if math.Abs(a[j][i]) > math.Abs(a[pivot][i]) {
				pivot = j
			}
		}
		if a[i], a[pivot] = a[pivot], a[i]; math.Abs(a[i][i]) < singular {
			return nil, false
		}
		for j := i + 1; j < n; j++ {
			factor := a[j][i] / a[i][i]
			for k := i; k <= n; k++ {
				a[j][k] -= float64(factor * a[i][k])
			}
		}
	}
	x = make([]float64, len(right))
	for i := n - 1; i >= 0; i-- {
		v := a[i][n]
		for k := i + 1; k < n; k++ {
			v -= float64(a[i][k] * x[columns[k]])
		}
		if v /= a[i][i]; v < 0 {
			return nil, false
		}
		x[columns[i]] = v
	}
	return x, true
}
