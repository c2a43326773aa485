// The vectors of a unit through its RTL: every step, and every whole dot product in the accumulator.
// Defined outside: STEP and UNIT, the modules; A to D, the bits of the ports; STEPS, DOTS, and LENGTH of a dot product.
module bench;
  logic [`A-1:0] a, step_a[`STEPS], dot_a[`DOTS * `LENGTH];
  logic [`B-1:0] b, step_b[`STEPS], dot_b[`DOTS * `LENGTH];
  logic [`C-1:0] c, step_c[`STEPS], dot_c[`DOTS];
  logic [`D-1:0] d, sum, step_d[`STEPS], dot_d[`DOTS];
  logic clk = 0, first;
  int steps = 0, dots = 0;

  `STEP step (.a(a), .b(b), .c(c), .d(d));
  `UNIT unit (.clk(clk), .valid(1'b1), .first(first), .a(a), .b(b), .c(c), .d(sum));

  initial begin
    $readmemh("a.hex", step_a); $readmemh("b.hex", step_b); $readmemh("c.hex", step_c); $readmemh("d.hex", step_d);
    $readmemh("dot_a.hex", dot_a); $readmemh("dot_b.hex", dot_b);
    $readmemh("dot_c.hex", dot_c); $readmemh("dot_d.hex", dot_d);
    for (int n = 0; n < `STEPS; n++) begin
      a = step_a[n]; b = step_b[n]; c = step_c[n];
      #1 if (d !== step_d[n]) steps++;
    end
    for (int n = 0; n < `DOTS; n++) begin
      for (int k = 0; k < `LENGTH; k++) begin
        a = dot_a[n * `LENGTH + k]; b = dot_b[n * `LENGTH + k]; c = dot_c[n]; first = k == 0;
        #1 clk = 1;
        #1 clk = 0;
      end
      if (sum !== dot_d[n]) dots++;
    end
    $display("steps %0d wrong %0d dots %0d wrong %0d", `STEPS, steps, `DOTS, dots);
    $finish;
  end
endmodule
