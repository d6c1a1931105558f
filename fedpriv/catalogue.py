"""DATASETS, MODELS, AUTOENCODERS and METRICS: the names people type."""

from torch import nn

from fedpriv.codes.coders import Coder, conv_coder, mlp_coder
from fedpriv.data import vision
from fedpriv.data.dataset import Dataset
from fedpriv.data.derived import mnist_odd
from fedpriv.data.embedded import mnist_5k
from fedpriv.data.npz import npz
from fedpriv.data.signals import har
from fedpriv.data.synthetic import synthetic
from fedpriv.data.tabular import adult
from fedpriv.metrics.features import cosine_similarity
from fedpriv.metrics.holdings import presence, rate_error, share_error
from fedpriv.metrics.images import mse, psnr, relative_error, ssim
from fedpriv.metrics.labels import hit, overlap, share_equal
from fedpriv.metrics.membership import found, found_strictly, rank, rate
from fedpriv.metrics.metric import Metric, fixed, pictures
from fedpriv.metrics.perceptual import perceptual
from fedpriv.metrics.shifted import shifted_psnr
from fedpriv.models.alexnet import alexnet
from fedpriv.models.autoencoders import (
    arl_resnet,
    ars_conv,
    ars_dense,
    ran_alexnet,
    ran_lenet,
    ran_vgg16,
)
from fedpriv.models.convnet import convnet
from fedpriv.models.dlnet import dlnet
from fedpriv.models.lenet import lenet
from fedpriv.models.mlp import mlp
from fedpriv.models.resnet import resnet20
from fedpriv.models.vgg import vgg16
from fedpriv.registry import Entry, Registry

# DATASETS.build(name, options, root=None or a folder)
DATASETS: Registry[Dataset] = Registry(
    "data",
    "data",
    {
        "mnist-5k": Entry(mnist_5k, "5,000 MNIST digits, 28×28, no download", "LeCun 1998"),
        "mnist-odd": Entry(
            mnist_odd, "MNIST: is a digit odd, and privately: is it 5 or more", "LeCun 1998"
        ),
        "mnist": Entry(vision.builder(vision.MNIST), "70,000 digits, 28×28", "LeCun 1998"),
        "fashion-mnist": Entry(
            vision.builder(vision.FASHION_MNIST), "pieces of clothing, 28×28", "Xiao 2017; ATS"
        ),
        "cifar10": Entry(
            vision.builder(vision.CIFAR10), "ten kinds of objects, 32×32", "Krizhevsky 2009; SPN"
        ),
        "cifar100": Entry(
            vision.builder(vision.CIFAR100),
            "a hundred kinds of objects, 32×32",
            "Krizhevsky 2009; ATS",
        ),
        "svhn": Entry(vision.builder(vision.SVHN), "house numbers, 32×32", "Netzer 2011; SPN"),
        "fairface": Entry(
            vision.builder(vision.FAIRFACE),
            "faces with gender, age and race, 48×48",
            "Karkkainen 2021",
        ),
        "olivetti": Entry(
            vision.builder(vision.OLIVETTI), "faces of forty persons, 64×64", "AT&T 1994"
        ),
        "adult": Entry(adult, "census rows, 133 columns; sex and race", "Kohavi 1996; ARS"),
        "har": Entry(har, "activities of thirty persons, 6×128 signals", "Reyes-Ortiz 2015; RAN"),
        "npz": Entry(npz, "samples of your own in an .npz file, with their clients"),
        "synthetic": Entry(synthetic, "made-up images, table or signals, for tests"),
    },
    gives=Dataset,
    given=("root",),
)

# MODELS.build(name, options, channels=…, size=…, classes=…)
MODELS: Registry[nn.Module] = Registry(
    "model",
    "models",
    {
        "dlnet": Entry(dlnet, "four 5×5 convolutions of 12, smooth", "SPN table 6"),
        "alexnet": Entry(alexnet, "AlexNet for 32×32 images", "SPN table 4"),
        "vgg16": Entry(vgg16, "VGG16 with GroupNorm for 32×32 images", "SPN table 5"),
        "lenet": Entry(lenet, "LeNet-5", "LeCun 1998"),
        "convnet": Entry(convnet, "eight convolutions with BatchNorm", "ATS sect. 5.1"),
        "resnet20": Entry(resnet20, "ResNet20; width 64 is ResNet20-4", "ATS sect. 5.1"),
        "mlp": Entry(mlp, "fully connected layers, for images and tables"),
    },
    gives=nn.Module,
    given=("channels", "size", "classes"),
)

# AUTOENCODERS.build(name, options, shape=…)
AUTOENCODERS: Registry[Coder] = Registry(
    "autoencoder",
    "autoencoders",
    {
        "mlp": Entry(mlp_coder, "fully connected layers, images and tables", "ARS sect. 5.1.2"),
        "conv": Entry(conv_coder, "stride-2 convolutions, images and signals", "RAN sect. 2.3"),
        "ars-dense": Entry(ars_dense, "three fully connected layers, codes of 256", "ARS 5.1.2"),
        "ars-conv": Entry(ars_conv, "four convolutions", "ARS sect. 5.1.2"),
        "ran-lenet": Entry(ran_lenet, "LeNet's convolutions and their mirror", "RAN sect. 3"),
        "ran-alexnet": Entry(ran_alexnet, "AlexNet's convolutions and their mirror", "RAN sect. 3"),
        "ran-vgg16": Entry(ran_vgg16, "VGG16's convolutions and their mirror", "RAN sect. 3"),
        "arl-resnet": Entry(arl_resnet, "ResNet-50 at six layers and its decoder", "ARL fig. 6"),
    },
    given=("shape",),
)

# METRICS.build(name, options)(guess, truth) -> (N,); the judge computes every one that fits a claim
METRICS: Registry[Metric] = Registry(
    "metric",
    "metrics",
    {
        "psnr": Entry(
            fixed(Metric(psnr, "high", "dB", said="PSNR", bound=20.0, fits=pictures)),
            "peak signal-to-noise ratio",
            "ATS eq. 2",
        ),
        "ssim": Entry(
            fixed(Metric(ssim, "high", said="SSIM", bound=0.5, fits=pictures)),
            "structural similarity",
            "ARS sect. 5.1.3",
        ),
        "relative-error": Entry(
            fixed(
                Metric(
                    relative_error,
                    "low",
                    said="relative error",
                    cap="reconstruction",
                    bound=0.3,
                )
            ),
            "‖x* − x‖ / ‖x‖; SPN writes rMSE",
            "SPN sect. 4.1",
        ),
        "mse": Entry(fixed(Metric(mse, "low", said="MSE")), "mean squared error", "ARS 5.1.3"),
        "features": Entry(
            perceptual,
            "distance of deep features; of random filters unless a network is given",
            "ARL eq. 4",
        ),
        "categories": Entry(
            fixed(Metric(share_equal, "high", of="categories")),
            "share of a row's categories that are right",
            "ARS table 3",
        ),
        "face": Entry(
            fixed(Metric(cosine_similarity, "high", of="faces", said="face similarity")),
            "cosine of the face features of guess and original",
            "ARL table 1",
        ),
        "nearest-of-100": Entry(
            fixed(Metric(hit, "high", of="nearest", said="original the nearest of 100")),
            "the original is nearer to the guess than 99 public samples; audits compute it",
        ),
        "class-recognised": Entry(
            fixed(Metric(hit, "high", of="recognised", said="class recognised")),
            "a classifier of public samples names the original's class; audits compute it",
        ),
        "psnr-trained": Entry(
            fixed(Metric(psnr, "high", "dB", "trained", "PSNR as trained on", fits=pictures)),
            "PSNR against the image as the client trained on it",
            "ATS eq. 2",
        ),
        "psnr-shifted": Entry(
            fixed(Metric(shifted_psnr, "high", "dB", said="PSNR up to a move", fits=pictures)),
            "the best PSNR over all moves by whole pixels that keep half of the picture",
        ),
        "label-overlap": Entry(
            fixed(
                Metric(
                    overlap,
                    "high",
                    of="labels",
                    said="labels of the batch recovered",
                    cap="membership",
                    margin=0.1,
                )
            ),
            "labels of the batch recovered, whichever sample they belong to",
            "SPN sect. 4.1; the overlap of two multisets",
        ),
        "label-hit": Entry(
            fixed(Metric(hit, "high", of="labels", said="labels recovered", margin=0.1)),
            "the label is right",
            "SPN sect. 4.1",
        ),
        "input-error": Entry(
            fixed(Metric(relative_error, "low", of="input", said="error of the input")),
            "relative error as the model sees the sample; theorem 2.2 bounds it",
            "SPN theorem 2.2",
        ),
        "traced-hit": Entry(
            fixed(Metric(hit, "high", of="owner", said="owners found", cap="tracing", margin=0.1)),
            "the nearest reconstruction is its owner's",
            "SPN alg. 6",
        ),
        "member-hit": Entry(
            fixed(Metric(found, "high", of="member", said="members found at 1 % FPR")),
            "a member that is found while at most 1 % of held-out samples are accused",
            "LiRA",
        ),
        "member-hit-strict": Entry(
            fixed(Metric(found_strictly, "high", of="member", said="members found at 0.1 % FPR")),
            "the same with at most 0.1 % of held-out samples accused",
            "LiRA",
        ),
        "member-rank": Entry(
            fixed(Metric(rank, "high", of="member", said="AUC: held-out samples below a member")),
            "share of held-out samples that score below a member; its mean is the AUC",
        ),
        "member-fpr": Entry(
            fixed(Metric(rate, "low", of="member", said="FPR at which a member is found")),
            "share of held-out samples accused when a member is",
        ),
        "class-share-error": Entry(
            fixed(Metric(share_error, "low", of="classes", said="L1 error of class shares")),
            "sum over classes of |guessed − true share| of a client's samples",
            "Decaf",
        ),
        "class-presence": Entry(
            fixed(Metric(presence, "high", of="classes", said="classes said rightly to be there")),
            "share of classes known to be, or not to be, 1 % of a client's samples",
            "Decaf",
        ),
        "rate-error": Entry(
            fixed(Metric(rate_error, "low", of="rate", said="error of an attribute's rate")),
            "|guessed − true rate| of a private attribute among a client's samples",
            "Melis 2019",
        ),
        "attribute-hit": Entry(
            fixed(Metric(hit, "high", of="attribute", said="attribute read", margin=0.1)),
            "the private attribute is right",
            "ARS sect. 5.1.3",
        ),
        "feature": Entry(
            fixed(Metric(cosine_similarity, "high", of="features", said="feature similarity")),
            "cosine of claimed and true identity features",
            "ARL eq. 10",
        ),
        "mask-overlap": Entry(
            fixed(Metric(share_equal, "high", of="mask", said="mask read")),
            "share of a secret mask that is right",
            "ARS sect. 6.1",
        ),
    },
    gives=Metric,
)
