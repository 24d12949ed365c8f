package control

const NodeTimeout = nodeTimeout
