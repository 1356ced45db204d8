# gnuplot -c curve.gnuplot LOG PICTURE: draws what the program has printed, as SVG.
set terminal svg size 800,600 font 'sans,13' background '#ffffff'; set output ARG2
printed(line) = real(system(sprintf("sed -nE 's/.*%s.*/\\1/p' '%s'", line, ARG1)))
points = sprintf("< grep ' s | ' '%s'", ARG1)
seconds = printed('olved after ([0-9.]+)')
set multiplot layout 2,1 title sprintf('Ape-X DQN on LunarLander-v2, seed %d', printed('seed ([0-9]+)'))
set grid lc rgb '#dddddd'; set lmargin 10; set rmargin 10
set xrange [0:seconds * 1.05]
set ylabel 'mean return'; set key bottom right
plot printed('needs ([-0-9]+)') title 'solved' lc rgb '#999999' dt 2, \
  points using 1:12 with lines lw 2 lc rgb '#1f77b4' title 'greediest environments, last 100 episodes', \
  '+' using (seconds):(printed('test: ([-0-9.]+)')) every ::::0 pt 7 lc rgb '#d62728' \
    title '100 greedy episodes, fresh seeds'
set xlabel 'seconds'; set ylabel '1000 environment steps/s'; set y2label '1000 updates/s'
set ytics nomirror; set y2tics; set yrange [0:*]; set y2range [0:*]
steps = updates = at = from = NaN
plot points using 1:(r = ($4 - steps) / ($1 - at) / 1000, steps = $4, at = $1, r) \
    with lines lw 2 lc rgb '#2ca02c' title 'environment steps', \
  points using 1:(r = ($7 - updates) / ($1 - from) / 1000, updates = $7, from = $1, r) axes x1y2 \
    with lines lw 2 lc rgb '#ff7f0e' title 'updates (right)'
unset multiplot
