# Reference fits on a generated tree: ape and nlme, REML and ML. Written once:
#   Rscript benchmarks/lineage_reference.R tests/modelling/lineage
# Tree: 60 tips, Grafen's branch lengths (ultrametric, height 1). Outcome: 0.3 + 0.5 a - 0.2 b + Brownian motion + noise of its own.
library(ape)
library(nlme)
out <- commandArgs(trailingOnly = TRUE)[1]
set.seed(40)
n <- 60
tree <- compute.brlen(rtree(n), method = "Grafen", power = 0.7)
K <- vcv(tree)
L <- t(chol(K))
a <- as.vector(L %*% rnorm(n))
b <- rnorm(n)
y <- 0.3 + 0.5 * a - 0.2 * b + 0.8 * as.vector(L %*% rnorm(n)) + 0.4 * rnorm(n)
rows <- data.frame(model_id = tree$tip.label, a = a, b = b, log_gain = y, row.names = tree$tip.label)
write.tree(tree, file.path(out, "generated.nwk"), digits = 17)
write.csv(format(rows, digits = 17), file.path(out, "generated.csv"), row.names = FALSE, quote = FALSE)

fits <- list()
tight <- glsControl(tolerance = 1e-12, msTol = 1e-14, maxIter = 500, msMaxIter = 500)
keep <- function(name, fit, parameter = NA) {
  s <- summary(fit)$tTable
  fits[[length(fits) + 1]] <<- data.frame(
    fit = name, method = fit$method, quantity = c(rownames(s), "sigma", "parameter", "logLik"),
    value = c(s[, "Value"], fit$sigma, parameter, as.numeric(logLik(fit))),
    se = c(s[, "Std.Error"], NA, NA, NA))
}
for (method in c("REML", "ML")) {
  keep("least squares", gls(log_gain ~ a + b, rows, method = method))
  keep("brownian", gls(log_gain ~ a + b, rows, corBrownian(1, tree, ~model_id), method = method), 1)
  pagel <- gls(log_gain ~ a + b, rows, corPagel(0.5, tree, ~model_id, FALSE), method = method, control = tight)
  keep("lambda", pagel, as.numeric(coef(pagel$modelStruct$corStruct, unconstrained = FALSE)))
}
table <- do.call(rbind, fits)
write.csv(format(table, digits = 12), file.path(out, "generated_reference.csv"), row.names = FALSE, quote = FALSE)
print(table)
cat(R.version.string, "ape", as.character(packageVersion("ape")), "nlme", as.character(packageVersion("nlme")), "\n")
