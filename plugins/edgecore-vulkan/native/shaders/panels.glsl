// Weights [k, columns] are stored in panels of 8 vectors of four columns, one panel [k, 8] after the other, so that a
// workgroup reads one contiguous piece. in_panel returns the index of a vector of columns in row 0 of its panel; row i
// is 8 * i later.
int in_panel(int column, int k) { return column / 8 * 8 * k + column % 8; }

vec4 zero_unless(bool condition, vec4 v) { return condition ? v : vec4(0); }
