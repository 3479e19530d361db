from softmargin.problem import *
